"""Where the loaded libraries of this process keep the addresses of functions that they call in other libraries.

A library calls ``bind`` through a slot of its procedure linkage table, which the dynamic linker has filled. See elf(5)
and dl_iterate_phdr(3). Linux with 64-bit ELF files only; elsewhere no slot is found.

Libraries that are bound when they are loaded have their table write-protected since (RELRO); pages of it are opened
for the moment of a change.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_PT_DYNAMIC = 2
_DT_PLTRELSZ, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_JMPREL = 2, 5, 6, 10, 23
_RELOCATION = [("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")]
_SYMBOL = [("name", "<u4"), ("rest", "V20")]
_PROT_READ, _PROT_WRITE = 1, 2


class _ProgramHeader(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("type", "flags")),
        *((name, ctypes.c_uint64) for name in ("offset", "address", "physical", "file_size", "size", "align")),
    )


class _Library(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_uint64),
        ("path", ctypes.c_char_p),
        ("headers", ctypes.POINTER(_ProgramHeader)),
        ("num_headers", ctypes.c_uint16),
    )


def redirect(function: str, library: str, address: int) -> dict[int, int]:
    """Have libraries call something else instead of a function.

    Args:
        function: Its name.
        library: What the names of the libraries' files begin with.
        address: What they call, as long as the process lives, or until :func:`restore`.

    Returns:
        By slot, what was called before; empty where the system or the libraries are others than expected.
    """
    before = {slot: ctypes.c_uint64.from_address(slot).value for slot in slots_of(function, library)}
    written = _write(dict.fromkeys(before, address))
    return {slot: before[slot] for slot in written}


def restore(before: Mapping[int, int]) -> None:
    """Have libraries call again what they did before a :func:`redirect`."""
    _write(before)


def _write(values: Mapping[int, int]) -> list[int]:
    """Put addresses into slots; returns the slots for which that was possible."""
    writable = _writable_ranges() if values else []
    protected = {_page(slot) for slot in values if not any(start <= slot < end for start, end in writable)}
    opened = {page for page in protected if _protect(page, _PROT_READ | _PROT_WRITE)}
    written = [slot for slot in values if _page(slot) not in protected - opened]
    for slot in written:
        ctypes.c_uint64.from_address(slot).value = values[slot]
    for page in opened:
        _protect(page, _PROT_READ)
    return written


def _page(slot: int) -> int:
    return slot - slot % mmap.PAGESIZE


def _protect(page: int, protection: int) -> bool:
    """Say what may be done with a page of memory; whether that was possible."""
    return bool(ctypes.CDLL(None).mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), protection) == 0)


def slots_of(function: str, library: str) -> list[int]:
    """Return the addresses of the slots by which libraries call a function.

    Args:
        function: Its name.
        library: What the names of the libraries' files begin with.
    """
    if not sys.platform.startswith("linux") or sys.maxsize < 2**32:
        return []
    return [slot for base, tags in _dynamic_sections(library) for slot in _slots(base, tags, function.encode())]


def _dynamic_sections(library: str) -> list[tuple[int, dict[int, int]]]:
    """Return where each library is loaded, and its dynamic section by tag."""
    found: list[tuple[int, dict[int, int]]] = []
    callback_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Library), ctypes.c_size_t, ctypes.c_void_p)

    def visit(pointer: ctypes._Pointer[_Library], size: int, data: int | None) -> int:
        seen = pointer.contents
        if Path((seen.path or b"").decode(errors="replace")).name.startswith(library):
            headers = (seen.headers[index] for index in range(seen.num_headers))
            found.extend(
                (seen.base, _tags(seen.base + of.address, of.size)) for of in headers if of.type == _PT_DYNAMIC
            )
        return 0

    ctypes.CDLL(None).dl_iterate_phdr(callback_type(visit), None)
    return found


def _tags(address: int, size_bytes: int) -> dict[int, int]:
    import numpy as np

    entries = np.frombuffer(ctypes.string_at(address, size_bytes), "<u8").reshape(-1, 2)
    return {int(tag): int(value) for tag, value in entries}


def _slots(base: int, tags: dict[int, int], function: bytes) -> Iterator[int]:
    if not {_DT_PLTRELSZ, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_JMPREL} <= tags.keys():
        return
    import numpy as np

    # The linker of glibc has made addresses of the offsets in this section; others leave it alone.
    at = {tag: value if value > base else base + value for tag, value in tags.items()}
    relocations = _memory(at[_DT_JMPREL], tags[_DT_PLTRELSZ]).view(np.dtype(_RELOCATION))
    num_symbols = int(relocations["symbol"].max(initial=0)) + 1
    symbol = np.dtype(_SYMBOL)
    names = _memory(at[_DT_SYMTAB], num_symbols * symbol.itemsize).view(symbol)["name"][relocations["symbol"]]
    texts = _memory(at[_DT_STRTAB], tags[_DT_STRSZ])
    wanted = np.frombuffer(function + b"\0", np.uint8)
    is_wanted = names.astype(np.int64) + len(wanted) <= len(texts)
    for place, letter in enumerate(wanted):
        is_wanted[is_wanted] = texts[names[is_wanted].astype(np.int64) + place] == letter
    yield from (base + int(offset) for offset in relocations["offset"][is_wanted])


def _memory(address: int, size_bytes: int) -> npt.NDArray[np.uint8]:
    import numpy as np

    return np.ctypeslib.as_array((ctypes.c_uint8 * size_bytes).from_address(address))


def _writable_ranges() -> list[tuple[int, int]]:
    ranges = []
    maps = Path("/proc/self/maps")
    for line in maps.read_text(errors="replace").splitlines() if maps.exists() else ():
        place, permissions = line.split()[:2]
        if "w" in permissions:
            start, _, end = place.partition("-")
            ranges.append((int(start, 16), int(end, 16)))
    return ranges
