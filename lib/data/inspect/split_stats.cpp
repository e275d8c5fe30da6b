#include "data/inspect/split_stats.hpp"

#include "base/error.hpp"
#include "data/core/parallel.hpp"
#include "data/image/codec/decoder.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace trainctl::data {
namespace {

constexpr std::int64_t kBlock = 64;  // samples per work item
constexpr std::int64_t kAheadOfEach = 4;

struct ChannelSums {
  std::uint64_t sum = 0;
  std::uint64_t squares = 0;
};

/// Sums over images, in integers, so that the order of addition does not matter.
struct ImageSums {
  std::vector<ChannelSums> channels;
  std::int64_t pixels = 0;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> sizes;

  void add(const ImageView& image) {
    channels.resize(static_cast<std::size_t>(image.shape.channels));
    pixels += image.shape.height * image.shape.width;
    ++sizes[{image.shape.height, image.shape.width}];
    for (std::int64_t y = 0; y < image.shape.height; ++y) {
      const std::uint8_t* pixel = image.row(y);
      for (std::int64_t x = 0; x < image.shape.width; ++x) {
        for (ChannelSums& channel : channels) {
          const std::uint32_t value = *pixel++;
          channel.sum += value;
          channel.squares += value * value;
        }
      }
    }
  }
  void add(const ImageSums& other) {
    channels.resize(std::max(channels.size(), other.channels.size()));
    pixels += other.pixels;
    for (const auto& [size, count] : other.sizes) sizes[size] += count;
    for (std::size_t c = 0; c < other.channels.size(); ++c) {
      channels[c].sum += other.channels[c].sum;
      channels[c].squares += other.channels[c].squares;
    }
  }
};

/// The rows, image sums and damaged samples of one block.
struct Block {
  std::int64_t first = 0;
  std::vector<std::vector<std::byte>> fields;  // one buffer per field; empty for the images
  ImageSums images;
  std::map<std::int64_t, SkippedSample> damaged;  // by row
};

class Reader {
 public:
  Reader(const Dataset& dataset, OnError on_error) : dataset_(dataset), on_error_(on_error) {}

  void read(std::int64_t first, Block& block) const {
    block = {.first = first};
    const std::int64_t count = std::min(kBlock, dataset_.size() - first);
    for (const Field& field : dataset_.layout())
      block.fields.emplace_back(is_image(field) ? 0
                                                : field.bytes() * static_cast<std::size_t>(count));
    Pool<Workspace>::Lease work(pool_);
    for (std::int64_t row = 0; row < count; ++row) {
      try {
        read_row(row, *work, block);
      } catch (const Error& error) {
        if (on_error_ == OnError::fail || error.kind() != ErrorKind::data) throw;
        block.damaged[row] = {sample_name(dataset_, first + row), error.message()};
      }
    }
  }

  static bool is_image(const Field& field) { return field.name == "image"; }

 private:
  struct Workspace {
    std::vector<std::byte> stored;
    PixelReader pixels;
    std::vector<std::span<std::byte>> rows;
  };

  void read_row(std::int64_t row, Workspace& work, Block& block) const {
    const std::int64_t index = block.first + row;
    work.rows.clear();
    for (std::size_t i = 0; i < block.fields.size(); ++i) {
      const std::size_t bytes = dataset_.layout()[i].bytes();
      const bool image = block.fields[i].empty();
      work.rows.push_back(
          image ? std::span<std::byte>()
                : std::span(block.fields[i]).subspan(static_cast<std::size_t>(row) * bytes, bytes));
    }
    dataset_.fill(std::span(&index, 1), work.rows);
    if (!std::ranges::any_of(dataset_.layout(), is_image)) return;
    in_context(sample_name(dataset_, index), [&] {
      const StoredImage stored = dataset_.images()->read(index, work.stored);
      block.images.add(work.pixels.read(stored));
    });
  }

  const Dataset& dataset_;
  OnError on_error_;
  mutable Pool<Workspace> pool_;
};

std::vector<ColumnStats> columns_of(const Field& field) {
  std::vector<ColumnStats> columns(field.bytes() / sizeof(float));
  for (std::size_t i = 0; i < columns.size(); ++i)
    columns[i].name = field.shape.empty() ? field.name : fmt::format("{}[{}]", field.name, i);
  return columns;
}

/// Adds up the blocks in order.
class Totals {
 public:
  Totals(const Dataset& dataset, SplitStats& stats) : layout_(dataset.layout()), stats_(stats) {
    for (const Field& field : layout_) {
      std::vector<ColumnStats>& columns = columns_called(field.name);
      if (field.dtype == Dtype::f32 && columns.empty()) columns = columns_of(field);
      if (field == Field{"label", Dtype::i64, {}})
        stats.per_class.resize(static_cast<std::size_t>(dataset.classes()));
    }
  }

  void add(const Block& block, std::int64_t count) {
    images_.add(block.images);
    for (std::int64_t row = 0; row < count; ++row) {
      if (block.damaged.contains(row)) continue;
      ++stats_.samples;
      for (std::size_t i = 0; i < layout_.size(); ++i) {
        const Field& field = layout_[i];
        if (Reader::is_image(field)) continue;
        add_row(field, block.fields[i].data() + static_cast<std::size_t>(row) * field.bytes());
      }
    }
  }

  void finish() const {
    const auto count = static_cast<double>(images_.pixels);
    for (const ChannelSums& channel : images_.channels) {
      const double mean = static_cast<double>(channel.sum) / count;
      const double variance = static_cast<double>(channel.squares) / count - mean * mean;
      stats_.mean.push_back(mean / 255);
      stats_.std.push_back(std::sqrt(std::max(0.0, variance)) / 255);
    }
    if (has_masks(layout_) && !stats_.mean.empty()) {
      stats_.mean.pop_back();  // of the mask
      stats_.std.pop_back();
    }
    stats_.sizes = images_.sizes;
  }

 private:
  std::vector<ColumnStats>& columns_called(const std::string& field) {
    return field == "label" ? stats_.targets : stats_.features;
  }

  void add_row(const Field& field, const std::byte* row) {
    if (field.dtype == Dtype::f32) {
      for (ColumnStats& column : columns_called(field.name)) {
        float value = 0;
        std::memcpy(&value, row, sizeof value);
        column.learn(value);
        row += sizeof value;
      }
    } else if (!stats_.per_class.empty() && field.name == "label") {
      std::int64_t number = 0;
      std::memcpy(&number, row, sizeof number);
      ASSERT(number >= 0 && number < std::ssize(stats_.per_class));
      ++stats_.per_class[static_cast<std::size_t>(number)];
    }
  }

  const Layout& layout_;
  SplitStats& stats_;
  ImageSums images_;
};

}  // namespace

SplitStats split_stats(const Dataset& dataset, const StatsOptions& options,
                       const StatsProgress& progress) {
  const std::int64_t size = dataset.size();
  const int workers = std::max(options.workers, 1);
  const InOrder range{
      .end = (size + kBlock - 1) / kBlock, .ahead = kAheadOfEach * workers, .workers = workers};
  std::vector<Block> blocks(static_cast<std::size_t>(range.ahead));
  const auto block_of = [&](std::int64_t number) -> Block& {
    return blocks[static_cast<std::size_t>(number % range.ahead)];
  };
  SplitStats stats;
  Totals totals(dataset, stats);
  SkippedSamples skipped(options.max_skipped.value_or(default_max_skipped(size)));
  const Reader reader(dataset, options.on_error);
  run_in_order(
      range, [&](std::int64_t number) { reader.read(number * kBlock, block_of(number)); },
      [&](std::int64_t number) {
        const Block& block = block_of(number);
        const std::int64_t count = std::min(kBlock, size - block.first);
        for (const auto& [row, sample] : block.damaged) skipped.add(block.first + row, sample);
        totals.add(block, count);
        progress(block.first + count);
      });
  totals.finish();
  stats.skipped = skipped.list();
  return stats;
}

}  // namespace trainctl::data
