#include "base/error.hpp"
#include "dist/communicator.hpp"

namespace trainctl::dist {

std::unique_ptr<Communicator> make_nccl(const GroupOptions& /*options*/, c10::Device /*device*/) {
  throw Error(
      ErrorKind::resource,
      "cannot use NCCL: this process has loaded trainctl's engine for CPUs, which has no NCCL"
      "\nhint: set distributed.backend=gloo and trainer.accelerator=cpu");
}

std::string nccl_version() { return {}; }

}  // namespace trainctl::dist
