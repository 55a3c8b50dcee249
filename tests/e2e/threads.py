"""Stops and controls one thread of a running process with ptrace, while the others run (x86-64)."""

import ctypes
import os
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long
_SINGLESTEP, _GETREGS, _SETREGS, _DETACH, _SEIZE, _INTERRUPT = 9, 12, 13, 17, 0x4206, 0x4207
_WALL = 0x40000000
_READ, _OPEN = 0, 2
# Indices in struct user_regs_struct.
_RAX, _RDX, _RSI, _RDI, _ORIG_RAX, _RIP, _RSP, _COUNT = 10, 12, 13, 14, 15, 16, 19, 27
_NONE = struct.unpack("Q", struct.pack("q", -1))[0]  # do not restart a system call
_SYSCALL = b"\x0f\x05"  # the instruction


def _ptrace(request, thread, data=None):
    if _libc.ptrace(request, thread, None, data) < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"ptrace: {os.strerror(error)}")


def stop(thread):
    """Stops only this thread, until resume() or the end of this process."""
    _ptrace(_SEIZE, thread)
    _ptrace(_INTERRUPT, thread)
    os.waitpid(thread, _WALL)


def resume(thread):
    _ptrace(_DETACH, thread)


def _registers(thread):
    registers = (ctypes.c_ulonglong * _COUNT)()
    _ptrace(_GETREGS, thread, ctypes.addressof(registers))
    return registers


def _address_of(pid, instruction):
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            area, rights = line.split()[:2]
            if "x" not in rights or "[" in line:
                continue
            begin, end = (int(bound, 16) for bound in area.split("-"))
            memory.seek(begin)
            place = memory.read(end - begin).find(instruction)
            if place >= 0:
                return begin + place
    raise AssertionError(f"process {pid} has no instruction {instruction.hex()}")


def read(pid, path):
    """Makes the stopped first thread read from this file. Its behaviour afterwards is undefined."""
    registers = _registers(pid)
    text = (registers[_RSP] - 4096) & ~15  # below the used part of the stack
    with open(f"/proc/{pid}/mem", "wb", buffering=0) as memory:
        memory.seek(text)
        memory.write(os.fsencode(path) + b"\0")
    registers[_RIP], registers[_ORIG_RAX] = _address_of(pid, _SYSCALL), _NONE
    registers[_RSP] = text
    registers[_RAX], registers[_RDI], registers[_RSI] = _OPEN, text, os.O_RDWR
    _ptrace(_SETREGS, pid, ctypes.addressof(registers))
    _ptrace(_SINGLESTEP, pid)
    os.waitpid(pid, _WALL)
    opened = _registers(pid)
    registers[_RAX], registers[_RDI], registers[_RSI], registers[_RDX] = _READ, opened[_RAX], text, 1
    _ptrace(_SETREGS, pid, ctypes.addressof(registers))
    resume(pid)
