#include "device/host_read.hpp"

#include "base/machine/host_waits.hpp"

namespace trainctl::device {

at::Tensor copy_to(const at::Tensor& tensor, at::Device to, std::string_view place) {
  if (tensor.device() == to) return tensor;
  if (tensor.is_cpu() || to.is_cpu()) count_host_wait(place);
  return tensor.to(to);
}

}  // namespace trainctl::device
