"""Finds the GPUs of this machine through the driver, as common/machine/gpus.cc does. This works before pfc is built,
and it obeys CUDA_VISIBLE_DEVICES, unlike nvidia-smi."""

import ctypes
import dataclasses
import functools
import re
import shutil
import statistics
import subprocess

OLDEST_CUDA = 13000  # CUDA version that a driver must support
MAJOR, MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_*


class NoGpu(Exception):
    """Says in one sentence why there is no GPU."""


@dataclasses.dataclass
class Gpu:
    name: str
    memory_bytes: int
    capability: str  # "9.0"

    @property
    def architecture(self):
        """Returns the architecture as in nvcc: 90."""
        return self.capability.replace(".", "")

    @property
    def slug(self):
        """Returns a file name: nvidia-h100-80gb-hbm3."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


def _call(driver, function, *arguments):
    code = getattr(driver, function)(*arguments)
    if code == 100:  # CUDA_ERROR_NO_DEVICE
        raise NoGpu("the driver sees no GPU; look at CUDA_VISIBLE_DEVICES and nvidia-smi -L")
    if code != 0:
        raise NoGpu(f"the driver fails: {function} returns CUDA error {code}; see dmesg")


def find_gpus(library="libcuda.so.1"):
    """Returns all GPUs. Raises NoGpu if there is none."""
    try:
        driver = ctypes.CDLL(library)
    except OSError as error:
        raise NoGpu(f"no NVIDIA driver here ({error})") from None
    version, count = ctypes.c_int(), ctypes.c_int()
    _call(driver, "cuDriverGetVersion", ctypes.byref(version))
    if version.value < OLDEST_CUDA:
        raise NoGpu(f"the driver supports CUDA {version.value // 1000}.{version.value % 1000 // 10}, "
                    "13.0 is needed; install a newer driver")
    _call(driver, "cuInit", 0)
    _call(driver, "cuDeviceGetCount", ctypes.byref(count))
    if count.value == 0:
        raise NoGpu("the driver sees no GPU; look at CUDA_VISIBLE_DEVICES and nvidia-smi -L")
    return [_describe(driver, index) for index in range(count.value)]


def _describe(driver, index):
    device, memory, name = ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(256)
    _call(driver, "cuDeviceGet", ctypes.byref(device), index)
    _call(driver, "cuDeviceGetName", name, len(name), device)
    _call(driver, "cuDeviceTotalMem_v2", ctypes.byref(memory), device)
    numbers = []
    for attribute in (MAJOR, MINOR):
        value = ctypes.c_int()
        _call(driver, "cuDeviceGetAttribute", ctypes.byref(value), attribute, device)
        numbers.append(str(value.value))
    return Gpu(name.value.decode(errors="replace"), memory.value, ".".join(numbers))


def _nvidia_smi(fields, *more):
    return ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits", "-i", "0", *more]


@functools.cache  # called after every case
def facts():
    """Returns driver and limits from nvidia-smi, for a report: {name: text}."""
    fields = {"driver": "driver_version", "largest SM clock, MHz": "clocks.max.sm",
              "largest memory clock, MHz": "clocks.max.mem", "power limit, W": "power.limit"}
    if not shutil.which("nvidia-smi"):
        return dict.fromkeys(fields, "unknown: no nvidia-smi")
    said = subprocess.run(_nvidia_smi(",".join(fields.values())), capture_output=True, text=True)
    values = said.stdout.strip().split(", ")
    return dict(zip(fields, values if len(values) == len(fields) else ["unknown"] * len(fields)))


class ClockWatch:
    """Measures the SM clock of the first GPU during a `with` block; see .text afterwards."""

    def __enter__(self):
        self.text, self.process = "unknown", None
        if shutil.which("nvidia-smi"):
            self.process = subprocess.Popen(_nvidia_smi("clocks.sm", "-l", "1"), text=True,
                                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        if self.process is None:
            return
        self.process.terminate()
        clocks = [int(line) for line in self.process.communicate()[0].split() if line.isdigit()]
        if clocks:
            self.text = (f"{min(clocks)} to {max(clocks)} MHz, "
                         f"median {statistics.median(clocks):.0f}")
