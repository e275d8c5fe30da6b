#include "dist/collective_error.hpp"

#include "dist/c10d_group.hpp"
#include "message_of.hpp"
#include "support/catch.hpp"

#include <c10/util/Exception.h>

#include <string>

using namespace trainctl;
using Catch::Matchers::Equals;

namespace {

/// Returns the text of c10d for an NCCL error, with the lines of ncclGetLastError().
std::string nccl_text(const std::string& result, const std::string& detail,
                      const std::string& last) {
  return "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, " + result +
         " (run with NCCL_DEBUG=INFO for details), NCCL version 2.28.9\n" + detail +
         "\nLast error:\n" + last;
}

Error error_of(const std::string& text) { return dist::collective_error("sum", {1, 4}, text); }

}  // namespace

TEST_CASE("collective_error: NCCL's last error decides about the kind and the hint") {
  const std::string system =
      "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or "
      "device error. ";
  const std::string cuda = "ncclUnhandledCudaError: Call to CUDA function failed.";
  struct Case {
    std::string result, detail, last;
    ErrorKind kind;
    const char* why;
    const char* hint;
  };
  const std::vector<Case> cases{
      {"invalid usage", "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
       "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 4000", ErrorKind::config,
       "two ranks use the same GPU", "CUDA_VISIBLE_DEVICES"},
      {"unhandled system error", system,
       "Error while creating shared memory segment /dev/shm/nccl-WU88OE (size 9637888), error: No "
       "space left on device (28)",
       ErrorKind::resource, "/dev/shm has no room", "--shm-size"},
      {"unhandled system error", system,
       "Error: failed to extend /dev/shm/nccl-WU88OE to 9637892 bytes, error: No space left on "
       "device (28)",
       ErrorKind::resource, "/dev/shm has no room", "--shm-size"},
      {"unhandled cuda error", cuda,
       "Cuda failure 35 'CUDA driver version is insufficient for CUDA runtime version'",
       ErrorKind::resource, "driver is too old", "update the NVIDIA driver"},
      {"unhandled system error", system, "nvmlInit_v2() failed: Driver/library version mismatch",
       ErrorKind::resource, "different versions", "restart the machine"},
      {"unhandled cuda error", cuda, "Cuda failure 2 'out of memory'", ErrorKind::resource,
       "no memory for the buffers of NCCL", "lower loader.batch_size"},
      {"unhandled cuda error", cuda, "Failed to CUDA calloc 4194304 bytes", ErrorKind::resource,
       "no memory for the buffers of NCCL", "lower loader.batch_size"},
      {"unhandled system error", system, "Bootstrap : no socket interface found", ErrorKind::config,
       "finds no network interface", "NCCL_SOCKET_IFNAME"},
      {"unhandled system error", system,
       "Call to ibv_reg_mr failed with error Cannot allocate memory", ErrorKind::resource,
       "cannot allocate memory", "ulimit -l"},
      {"unhandled cuda error", cuda, "Cuda failure 719 'unspecified launch failure'",
       ErrorKind::unexpected, "a kernel failed on the GPU of this rank", "CUDA_LAUNCH_BLOCKING"},
      {"unhandled cuda error", cuda, "Cuda failure 214 'uncorrectable ECC error encountered'",
       ErrorKind::resource, "the GPU of this rank cannot be used", "dmesg"},
      {"unhandled cuda error", cuda, "Cuda failure 1 'invalid argument'", ErrorKind::rank_failed,
       "a CUDA call of this rank failed", ""},
      {"remote process exited or there was a network error",
       "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
       "prematurely.",
       "socketPollConnect: connect to 10.1.0.7<40201> returned Connection refused, exceeded error "
       "retry count after 34 attempts",
       ErrorKind::rank_failed, "another rank is unreachable", ""},
  };
  for (const Case& one : cases) {
    INFO(one.last);
    const Error error = error_of(nccl_text(one.result, one.detail, one.last));
    CHECK(error.kind() == one.kind);
    CHECK_THAT(error.message(), Contains(std::string("the collective 'sum' failed because ")) &&
                                    Contains(one.why) && Contains("Last error: " + one.last) &&
                                    Contains("NCCL version 2.28.9; nccl"));
    CHECK_THAT(error.hint(), Contains(one.hint));
    CHECK(error.hint().empty() == std::string(one.hint).empty());
  }
}

TEST_CASE("collective_error: a lost rank and a timeout of Gloo name the collective") {
  const Error lost = error_of(
      "[../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
      "[127.0.0.1]:41230");
  CHECK(lost.kind() == ErrorKind::rank_failed);
  CHECK_THAT(lost.what(),
             Equals("rank 1 of 4: the collective 'sum' failed because another rank is unreachable: "
                    "[../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by "
                    "peer [127.0.0.1]:41230"));
  const Error late = error_of("Timed out waiting 600000ms for recv operation to complete");
  CHECK(late.kind() == ErrorKind::hang);
  CHECK_THAT(late.what(), Contains("did not answer within distributed.timeout_s"));
}

TEST_CASE("rethrow_collective: the Error has the whole text of a DistBackendError") {
  std::exception_ptr thrown;
  try {
    dist::run_collective("sum", dist::RankInfo{0, 2}, [] {
      TORCH_CHECK_WITH(DistBackendError, false,
                       nccl_text("invalid usage",
                                 "ncclInvalidUsage: This usually reflects invalid "
                                 "usage of NCCL library.",
                                 "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device "
                                 "4000"));
    });
  } catch (...) {
    thrown = std::current_exception();
  }
  CHECK_THAT(message_of(thrown, ErrorKind::config), Contains("both on CUDA device 4000"));
}
