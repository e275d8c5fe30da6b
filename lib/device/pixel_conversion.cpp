#include "device/pixel_conversion.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"

namespace trainctl::device {
namespace {

float value_for(const std::vector<float>& values, std::size_t channel) {
  return values.size() == 1 ? values[0] : values[channel];
}

void widen_plane(const std::byte* pixels, std::size_t stride, std::size_t count, const float* table,
                 float* out) {
  for (std::size_t i = 0; i < count; ++i)
    out[i] = table[std::to_integer<unsigned>(pixels[i * stride])];
}

}  // namespace

PixelConversion::PixelConversion(std::int64_t channels,
                                 const std::optional<data::Normalization>& normalization)
    : tables_(static_cast<std::size_t>(channels)) {
  if (normalization) {
    for (const std::size_t given : {normalization->mean.size(), normalization->std.size()}) {
      ENSURE(config, given == 1 || given == tables_.size(),
             "mean and std of normalize have {} value{}, but the images have {} channel{}\n"
             "hint: set one value, or one per channel",
             given, plural(given), channels, plural(channels));
    }
  }
  for (std::size_t c = 0; c < tables_.size(); ++c) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      float value = static_cast<float>(byte) / 255.0F;
      if (normalization)
        value = (value - value_for(normalization->mean, c)) / value_for(normalization->std, c);
      tables_[c][byte] = value;
    }
  }
}

void PixelConversion::operator()(std::span<const std::byte> images_nhwc, std::int64_t rows,
                                 std::span<float> inputs_nchw) const {
  const std::size_t channels = tables_.size();
  ASSERT(images_nhwc.size() >= inputs_nchw.size());
  if (channels == 1) {
    widen_plane(images_nhwc.data(), 1, inputs_nchw.size(), tables_[0].data(), inputs_nchw.data());
    return;
  }
  const std::size_t pixels = inputs_nchw.size() / channels / static_cast<std::size_t>(rows);
  const std::byte* image = images_nhwc.data();
  float* out = inputs_nchw.data();
  for (std::int64_t row = 0; row < rows; ++row, image += pixels * channels) {
    for (std::size_t c = 0; c < channels; ++c, out += pixels) {
      widen_plane(image + c, channels, pixels, tables_[c].data(), out);
    }
  }
}

std::vector<float> gather_values(const FeedOptions& options, std::int64_t channels) {
  const PixelConversion widen(channels, options.normalization);
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
  job.source_height = job.height;
  job.source_width = job.width;
  job.image_bytes = std::int64_t{job.height} * job.width * job.channels;
  if (options.held) {
    job.images = reinterpret_cast<const std::uint8_t*>(options.held->memory->address());
    job.image_bytes = static_cast<std::int64_t>(options.held->shape.bytes());
    job.source_height = static_cast<std::int32_t>(options.held->shape.height);
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
