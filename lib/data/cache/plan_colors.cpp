#include "data/cache/plan_colors.hpp"

#include "data/cache/fixed_prefix.hpp"

#include <fmt/format.h>

namespace trainctl::data {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::string named(const Pipeline& pipeline, std::size_t i) {
  return i < pipeline.names.size() ? fmt::format("transform '{}'", pipeline.names[i])
                                   : fmt::format("transform {}", i + 1);
}

Bytes in_channels(const Fill& fill, std::int64_t channels) {
  Bytes colors;
  for (std::int64_t channel = 0; channel < channels; ++channel) colors.push_back(fill[channel]);
  return colors;
}

/// Adds what one more step paints. Returns what stands against it.
std::string add(const Paint& paint, std::int64_t channels, PlanColors& colors) {
  if (paint.outside) {
    const Bytes fill = in_channels(*paint.outside, channels);
    if (!colors.outside.empty() && colors.outside != fill)
      return "fills with another colour than a transform before it; give both the same 'fill'";
    colors.outside = fill;
  }
  if (paint.erased) {
    if (!colors.erased.empty()) return "erases a second time; remove one of the two";
    colors.erased = in_channels(*paint.erased, channels);
  }
  return "";
}

}  // namespace

PlannedTail planned_tail(const Pipeline& pipeline, const ImageShape& shape) {
  PlannedTail tail;
  const std::size_t first = fixed_prefix(pipeline);
  ImageShape now = shape;
  for (std::size_t i = first; i < pipeline.transforms.size(); ++i) {
    const Transform& transform = *pipeline.transforms[i];
    const auto paint = transform.paints(now);
    if (!paint) {
      tail.obstacle = named(pipeline, i) +
                      " computes new pixels, and a device moves, mirrors and paints over those "
                      "that it keeps; remove it, move it before the first random transform if it "
                      "is not random itself, or write 'mode: decoded'";
      return tail;
    }
    if (!now.fixed()) break;
    if (const std::string why = add(*paint, shape.channels, tail.colors); !why.empty()) {
      tail.obstacle = named(pipeline, i) + " " + why + ", or write 'mode: decoded'";
      return tail;
    }
    now = transform.output(now);
  }
  if (!shape.fixed())
    tail.obstacle =
        "the images differ in size behind the transforms that are not random, and a device keeps "
        "images of one size; begin with 'resize' and 'center_crop', or write 'mode: decoded'";
  const auto channels = static_cast<std::size_t>(shape.channels);
  tail.colors.outside.resize(channels);
  tail.colors.erased.resize(channels);
  return tail;
}

}  // namespace trainctl::data
