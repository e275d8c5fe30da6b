#include "device/pixel_conversion.hpp"

#include "device/widen.hpp"

namespace trainctl::device {

std::vector<float> gather_values(const FeedOptions& options, std::int64_t channels) {
  const Widen widen(channels, options.normalization);
  std::vector<float> values;
  for (std::size_t channel = 0; channel < widen.tables().size(); ++channel) {
    const auto& table = widen.tables()[channel];
    const bool paints = options.held != nullptr;
    values.insert(values.end(), table.begin(), table.end());
    values.push_back(table.at(paints ? options.held->colors.outside.at(channel) : 0));
    values.push_back(table.at(paints ? options.held->colors.erased.at(channel) : 0));
  }
  return values;
}

Gather gather_of(const FeedOptions& options, const FeedPart& image) {
  Gather job;
  job.channels = static_cast<std::int32_t>(image.shape.at(1));
  job.height = static_cast<std::int32_t>(image.shape.at(2));
  job.width = static_cast<std::int32_t>(image.shape.at(3));
  job.source_width = job.width;
  job.image_bytes = std::int64_t{job.height} * job.width * job.channels;
  if (options.held) {
    job.images = reinterpret_cast<const std::uint8_t*>(options.held->memory->address());
    job.image_bytes = static_cast<std::int64_t>(options.held->shape.bytes());
    job.source_width = static_cast<std::int32_t>(options.held->shape.width);
  }
  return job;
}

void gather_on_host(const Gather& job, float* inputs_nchw) {
  for (std::int64_t row = 0; row < job.rows; ++row) {
    for (std::int32_t pixel = 0; pixel < job.height * job.width; ++pixel)
      gather_pixel(job, inputs_nchw, row, pixel);
  }
}

}  // namespace trainctl::device
