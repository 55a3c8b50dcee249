// Fake of NCCL that only returns a version, for machines without NCCL.

extern "C" int ncclGetVersion(int* version) {
  *version = 22'809;
  return 0;
}
