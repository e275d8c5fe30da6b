#pragma once

#include "dist/grad_sync.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trainctl::dist {

/// Numbers of the parameters of each bucket, the buckets in the order of the exchange: a function
/// of the parameters and the options alone.
using Layout = std::vector<std::vector<std::size_t>>;

Layout layout_of(const std::vector<at::Tensor>& parameters, const BucketOptions& options);
/// As GradSync::layout().
std::string text_of(const Layout& layout, const std::vector<at::Tensor>& parameters);
/// The one on which all of them lie.
c10::Device device_of(const std::vector<at::Tensor>& parameters);
/// Of the gradients as they are.
std::vector<std::int64_t> bytes_of(const Layout& layout, const std::vector<at::Tensor>& parameters);

}  // namespace trainctl::dist
