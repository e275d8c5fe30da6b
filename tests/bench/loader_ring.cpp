// Measures samples per second of the loader on an in-memory set of MNIST's shape, compared with the
// limit of the machine: a plain gather of the same rows into one warm buffer. Rounds are
// interleaved; only the ratios are meaningful.

#include "base/clock.hpp"
#include "base/statistics.hpp"
#include "data/core/memory_dataset.hpp"
#include "data/loader/loader.hpp"
#include "data/loader/order.hpp"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <vector>

using namespace trainctl;
using namespace trainctl::data;

namespace {

constexpr std::int64_t kSamples = 60'000;
constexpr std::int64_t kBatch = 256;
constexpr std::size_t kBytes = 784;
constexpr int kRounds = 15;
const std::vector<int> kWorkers{0, 1, 2};

std::shared_ptr<const Dataset> make_dataset() {
  const Facts facts = MemoryDataset::facts(kSamples, 10, {28, 28, 1});
  Arena images = image_memory(facts);
  for (std::size_t i = 0; i < images.bytes().size(); ++i)
    images.bytes()[i] = static_cast<std::byte>(i * 31 >> 3);
  return std::make_shared<const MemoryDataset>(facts, std::move(images),
                                               std::vector<std::uint8_t>(kSamples, 3));
}

/// Returns the seconds of one epoch; the consumer reads only the labels.
double loader_seconds(Loader& loader, std::int64_t epoch, std::uint64_t& sink) {
  const double start = steady_clock().now();
  loader.start_epoch(epoch);
  while (const Batch* batch = loader.next()) {
    for (const std::byte byte : batch->fields[1]) sink += std::to_integer<std::uint64_t>(byte);
  }
  return steady_clock().now() - start;
}

/// Returns the seconds of a memcpy of each row, which relies on the CPU's own prefetching.
double gather_seconds(std::span<const std::byte> images, const Permutation& order,
                      std::uint64_t& sink) {
  static std::vector<std::byte> buffer(kBatch * kBytes);
  const double start = steady_clock().now();
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::memcpy(buffer.data() + i % kBatch * kBytes, images.data() + order[i] * kBytes, kBytes);
    sink += std::to_integer<std::uint64_t>(buffer[i % kBatch * kBytes]);
  }
  return steady_clock().now() - start;
}

}  // namespace

int main() {
  const auto dataset = make_dataset();
  Arena copy(static_cast<std::size_t>(kSamples) * kBytes);
  std::map<int, std::unique_ptr<Loader>> loaders;
  for (const int workers : kWorkers) {
    LoaderOptions options;
    options.batch_size = kBatch;
    options.num_workers = workers;
    loaders[workers] = std::make_unique<Loader>(Pipeline{dataset, {}, {}}, options);
  }
  std::uint64_t sink = 0;
  Permutation order(kSamples);
  std::map<int, std::vector<double>> seconds;
  std::vector<double> limit;
  for (int round = 0; round < kRounds; ++round) {
    shuffle(order, 0, round);
    limit.push_back(gather_seconds(copy.bytes(), order, sink));
    for (const int workers : kWorkers)
      seconds[workers].push_back(loader_seconds(*loaders[workers], round, sink));
  }
  fmt::print("{:<22} {:>16} {:>10}\n", "setting", "samples/s (M)", "of limit");
  const double floor = median(limit);
  fmt::print("{:<22} {:>16.2f} {:>10.2f}\n", "plain gather (limit)", kSamples / floor / 1e6, 1.0);
  for (const int workers : kWorkers) {
    const double middle = median(seconds[workers]);
    fmt::print("{:<22} {:>16.2f} {:>10.2f}\n", fmt::format("loader, {} workers", workers),
               kSamples / middle / 1e6, floor / middle);
  }
  return sink == 0 ? 1 : 0;
}
