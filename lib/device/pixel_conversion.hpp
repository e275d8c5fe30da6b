#pragma once

#include "device/feed.hpp"
#include "device/gather.hpp"

#include <vector>

namespace trainctl::device {

/// What Gather::values points to: Widen's tables, and behind each the values of the two colours of
/// the images that a device keeps, if it does.
std::vector<float> gather_values(const FeedOptions& options, std::int64_t channels);

/// The part of a job that all batches have in common; `image` is the part of the feed. The images
/// are the kept ones, if there are any.
Gather gather_of(const FeedOptions& options, const FeedPart& image);

/// The kernel's work on a CPU, float32 and channels first.
void gather_on_host(const Gather& job, float* inputs_nchw);

}  // namespace trainctl::device
