// A library that only returns a version of NCCL, for tests on machines without NCCL.

extern "C" int ncclGetVersion(int* version) {
  *version = 22'809;
  return 0;
}
