#pragma once

namespace trainctl {

/// Makes glibc's malloc keep the memory that tensors free. By default it returns freed blocks to
/// the kernel whenever the heap happens to end in them, and each step then pays page faults to get
/// them back: a fifth of a small network's step, in some processes and some epochs only. Blocks up
/// to 32 MiB, glibc's own limit, are kept. Changes nothing where the user set MALLOC_* or
/// GLIBC_TUNABLES. For a process that trains; call before other threads start.
void keep_freed_memory();

}  // namespace trainctl
