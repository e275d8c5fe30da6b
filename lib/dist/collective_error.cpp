#include "dist/collective_error.hpp"

#include "base/machine/cuda_errors.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <array>

namespace trainctl::dist {
namespace {

/// A cause that the text of an error reveals.
struct Cause {
  std::string_view pattern;  // a part of the text
  ErrorKind kind;
  std::string_view why;   // completes "the collective failed because ..."
  std::string_view hint;  // empty: none
};

constexpr std::string_view kDriverHint =
    "update the NVIDIA driver; 'trainctl doctor' prints its version";

/// The first match decides. The texts are those of NCCL 2.28, as its "Last error:" reports them,
/// and of the CUDA runtime.
constexpr std::array kCauses{
    Cause{"Duplicate GPU detected", ErrorKind::config, "two ranks use the same GPU",
          "list each GPU once in CUDA_VISIBLE_DEVICES, and start one rank for each GPU"},
    Cause{"Error while creating shared memory segment /dev/shm", ErrorKind::resource,
          "/dev/shm has no room for the buffers of NCCL",
          "enlarge /dev/shm (in a container: --shm-size=1g or --ipc=host), or remove old files "
          "in it"},
    Cause{"failed to extend /dev/shm", ErrorKind::resource,
          "/dev/shm has no room for the buffers of NCCL",
          "enlarge /dev/shm (in a container: --shm-size=1g or --ipc=host), or remove old files "
          "in it"},
    Cause{"CUDA driver version is insufficient for CUDA runtime version", ErrorKind::resource,
          "the NVIDIA driver is too old for CUDA 13", kDriverHint},
    Cause{"Driver/library version mismatch", ErrorKind::resource,
          "the loaded NVIDIA kernel module and the driver's libraries have different versions",
          "restart the machine, or reload the kernel modules of NVIDIA"},
    Cause{"the provided PTX was compiled with an unsupported toolchain", ErrorKind::resource,
          "the NVIDIA driver is too old for the kernels of NCCL", kDriverHint},
    Cause{"no kernel image is available for execution", ErrorKind::resource,
          "NCCL has no kernels for this GPU", "use a newer GPU"},
    Cause{"no socket interface found", ErrorKind::config, "NCCL finds no network interface",
          "set distributed.interface or NCCL_SOCKET_IFNAME to an interface of this node"},
    Cause{"NET/Socket : no interface found", ErrorKind::config, "NCCL finds no network interface",
          "set distributed.interface or NCCL_SOCKET_IFNAME to an interface of this node"},
    Cause{"'out of memory'", ErrorKind::resource, "the GPU has no memory for the buffers of NCCL",
          "lower loader.batch_size, or end other processes that use the GPU"},
    Cause{"Failed to CUDA", ErrorKind::resource, "the GPU has no memory for the buffers of NCCL",
          "lower loader.batch_size, or end other processes that use the GPU"},
    Cause{"failed with error Cannot allocate memory", ErrorKind::resource,
          "this rank cannot allocate memory",
          "raise the limit of locked memory (ulimit -l), or lower loader.batch_size"},
    Cause{"Too many open files", ErrorKind::resource, "this rank has too many open files",
          "raise the limit of open files (ulimit -n)"},
    Cause{"Cuda failure", ErrorKind::rank_failed, "a CUDA call of this rank failed", {}},
    Cause{"imed out",
          ErrorKind::hang,
          "another rank did not answer within distributed.timeout_s",
          {}},
    Cause{
        "imeout", ErrorKind::hang, "another rank did not answer within distributed.timeout_s", {}},
    Cause{"", ErrorKind::rank_failed, "another rank is unreachable", {}},
};

/// Returns N of NCCL's "Cuda failure N 'text'"; 0 without it.
int cuda_code(std::string_view text) {
  constexpr std::string_view kBefore = "Cuda failure ";
  const std::size_t at = text.find(kBefore);
  if (at == std::string_view::npos) return 0;
  const std::string_view rest = text.substr(at + kBefore.size());
  return parse_number<int>(rest.substr(0, rest.find(' '))).value_or(0);
}

Cause cause_of(std::string_view text) {
  const auto known = *std::ranges::find_if(kCauses, [&](const Cause& cause) {
    return text.find(cause.pattern) != std::string_view::npos;
  });
  const int code = cuda_code(text);
  if (known.kind != ErrorKind::rank_failed || code == 0) return known;
  switch (cuda_fault(code)) {
    case CudaFault::hardware:
      return {"", ErrorKind::resource, "the GPU of this rank cannot be used", kHardwareHint};
    case CudaFault::kernel:
      return {"", ErrorKind::unexpected, "a kernel failed on the GPU of this rank", kKernelHint};
    default: return known;
  }
}

}  // namespace

Error collective_error(const std::string& what, const RankInfo& rank_info, std::string_view text) {
  const Cause cause = cause_of(text);
  return {cause.kind,
          fmt::format("rank {} of {}: the collective '{}' failed because {}: {}{}{}",
                      rank_info.rank, rank_info.world_size, what, cause.why, one_line(text),
                      cause.hint.empty() ? "" : "\nhint: ", cause.hint)};
}

}  // namespace trainctl::dist
