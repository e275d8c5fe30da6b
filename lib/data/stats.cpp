#include "data/stats.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

namespace trainctl::data {
namespace {

constexpr std::int64_t kBatch = 64;

struct ChannelSums {
  std::uint64_t sum = 0;
  std::uint64_t squares = 0;
};

/// What is kept of an image in the place of its pixels: so the loader's threads do the work.
struct ImageSums {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<ChannelSums> channels;

  explicit ImageSums(std::int64_t count) : channels(static_cast<std::size_t>(count)) {}
  [[nodiscard]] std::size_t bytes() const {
    return 2 * sizeof height + channels.size() * sizeof(ChannelSums);
  }

  void add(const ImageView& image) {
    height = image.shape.height;
    width = image.shape.width;
    for (std::int64_t y = 0; y < height; ++y) {
      const std::uint8_t* pixel = image.row(y);
      for (std::int64_t x = 0; x < width; ++x) {
        for (ChannelSums& channel : channels) {
          const std::uint32_t value = *pixel++;
          channel.sum += value;
          channel.squares += value * value;
        }
      }
    }
  }
  void write(std::uint8_t* to) const {
    std::memcpy(to, &height, sizeof height);
    std::memcpy(to + sizeof height, &width, sizeof width);
    std::memcpy(to + 2 * sizeof height, channels.data(), channels.size() * sizeof(ChannelSums));
  }
  void read(const std::byte* from) {
    std::memcpy(&height, from, sizeof height);
    std::memcpy(&width, from + sizeof height, sizeof width);
    std::memcpy(channels.data(), from + 2 * sizeof height, channels.size() * sizeof(ChannelSums));
  }
};

class Summary final : public Transform {
 public:
  [[nodiscard]] ImageShape output(const ImageShape& input) const override {
    return {1, static_cast<std::int64_t>(ImageSums(input.channels).bytes()), 1};
  }
  [[nodiscard]] bool random() const override { return false; }
  void apply(const ImageView& input, ImageTarget& target, CounterRng&) const override {
    ImageSums sums(input.shape.channels);
    sums.add(input);
    sums.write(target.resize(output(input.shape)));
  }
};

/// Adds up what Summary left of the images.
class ImageTotals {
 public:
  explicit ImageTotals(std::int64_t channels)
      : one_(channels), all_(static_cast<std::size_t>(channels)) {}

  void add(const std::byte* summary, SplitStats& stats) {
    one_.read(summary);
    ++stats.sizes[{one_.height, one_.width}];
    pixels_ += one_.height * one_.width;
    for (std::size_t c = 0; c < all_.size(); ++c) {
      all_[c].sum += one_.channels[c].sum;
      all_[c].squares += one_.channels[c].squares;
    }
  }
  void finish(SplitStats& stats) const {
    const auto count = static_cast<double>(pixels_);
    for (const ChannelSums& channel : all_) {
      const double mean = static_cast<double>(channel.sum) / count;
      const double variance = static_cast<double>(channel.squares) / count - mean * mean;
      stats.mean.push_back(mean / 255);
      stats.std.push_back(std::sqrt(std::max(0.0, variance)) / 255);
    }
  }

 private:
  ImageSums one_;
  std::vector<ChannelSums> all_;
  std::int64_t pixels_ = 0;
};

void count_classes(const Batch& batch, std::size_t label, SplitStats& stats) {
  for (std::int64_t row = 0; row < batch.valid; ++row) {
    std::int64_t number = 0;
    std::memcpy(&number, batch.fields[label].data() + static_cast<std::size_t>(row) * sizeof number,
                sizeof number);
    ASSERT(number >= 0 && number < std::ssize(stats.per_class));
    ++stats.per_class[static_cast<std::size_t>(number)];
  }
}

std::size_t field_called(const Layout& layout, std::string_view name) {
  const auto named = [&](const Field& field) { return field.name == name; };
  return static_cast<std::size_t>(std::find_if(layout.begin(), layout.end(), named) -
                                  layout.begin());
}

}  // namespace

SplitStats split_stats(const std::shared_ptr<const Dataset>& dataset, int workers,
                       const StatsProgress& progress) {
  Pipeline pipeline{.dataset = dataset};
  const std::size_t image = field_called(dataset->layout(), "image");
  const std::size_t label = field_called(dataset->layout(), "label");
  const bool images = image < dataset->layout().size();
  if (images) pipeline.transforms = {std::make_shared<const Summary>()};
  Loader loader(pipeline,
                {.batch_size = kBatch, .num_workers = workers, .order = Order::sequential});

  SplitStats stats{.samples = dataset->size()};
  if (label < dataset->layout().size())
    stats.per_class.resize(static_cast<std::size_t>(dataset->classes()));
  ImageTotals totals(images ? image_shape(dataset->layout()[image]).channels : 0);
  std::int64_t done = 0;
  loader.start_epoch(0);
  while (const Batch* batch = loader.next()) {
    const std::size_t bytes = loader.layout()[image < loader.layout().size() ? image : 0].bytes();
    for (std::int64_t row = 0; images && row < batch->valid; ++row) {
      totals.add(batch->fields[image].data() + static_cast<std::size_t>(row) * bytes, stats);
    }
    if (!stats.per_class.empty()) count_classes(*batch, label, stats);
    progress(done += batch->valid);
  }
  if (images) totals.finish(stats);
  return stats;
}

}  // namespace trainctl::data
