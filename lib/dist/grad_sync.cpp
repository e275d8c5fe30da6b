#include "dist/grad_sync.hpp"

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <tuple>

namespace trainctl::dist {

Layout layout_of(const std::vector<at::Tensor>& parameters, const BucketOptions& options) {
  auto layout = std::get<0>(c10d::compute_bucket_assignment_by_size(
      parameters, {options.first_bytes, options.cap_bytes}));
  std::reverse(layout.begin(), layout.end());  // the order of the backward pass
  return layout;
}

std::string text_of(const Layout& layout, const std::vector<at::Tensor>& parameters) {
  std::string text;
  for (const std::vector<std::size_t>& bucket : layout) {
    std::int64_t elements = 0;
    for (const std::size_t i : bucket) elements += parameters[i].numel();
    text +=
        (text.empty() ? "" : ",") + std::to_string(bucket.size()) + "x" + std::to_string(elements);
  }
  return text;
}

c10::Device device_of(const std::vector<at::Tensor>& parameters) {
  return parameters.empty() ? c10::Device(c10::kCPU) : parameters.front().device();
}

std::vector<std::int64_t> bytes_of(const Layout& layout,
                                   const std::vector<at::Tensor>& parameters) {
  std::vector<std::int64_t> bytes;
  for (const std::vector<std::size_t>& bucket : layout) {
    bytes.push_back(0);
    for (const std::size_t i : bucket)
      bytes.back() += static_cast<std::int64_t>(parameters[i].nbytes());
  }
  return bytes;
}

}  // namespace trainctl::dist
