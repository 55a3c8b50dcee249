"""What a debugger can do to one thread of a running process, while the others go on."""

import ctypes
import os
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long
_GETREGS, _SETREGS, _DETACH, _SEIZE, _INTERRUPT = 12, 13, 17, 0x4206, 0x4207
_WALL = 0x40000000
# Places in struct user_regs_struct of x86-64.
_ORIG_RAX, _RIP, _COUNT = 15, 16, 27
_LOOP = b"\xeb\xfe"  # jmp to itself


def _ptrace(request, thread, data=None):
    if _libc.ptrace(request, thread, None, data) < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"ptrace: {os.strerror(error)}")


def stop(thread):
    """Stops this thread alone, until resume() or the end of this process."""
    _ptrace(_SEIZE, thread)
    _ptrace(_INTERRUPT, thread)
    os.waitpid(thread, _WALL)


def resume(thread):
    _ptrace(_DETACH, thread)


def _address_of_loop(pid):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            area, rights = line.split()[:2]
            if "x" not in rights or "[" in line:
                continue
            begin, end = (int(bound, 16) for bound in area.split("-"))
            memory.seek(begin)
            place = memory.read(end - begin).find(_LOOP)
            if place >= 0:
                return begin + place
    raise AssertionError("no instruction is found that jumps to itself")


def spin(pid):
    """Makes the first thread compute for ever, to no end. It does nothing else any more."""
    stop(pid)
    registers = (ctypes.c_ulonglong * _COUNT)()
    _ptrace(_GETREGS, pid, ctypes.addressof(registers))
    registers[_RIP] = _address_of_loop(pid)
    registers[_ORIG_RAX] = struct.unpack("Q", struct.pack("q", -1))[0]  # no system call begins again
    _ptrace(_SETREGS, pid, ctypes.addressof(registers))
    resume(pid)
