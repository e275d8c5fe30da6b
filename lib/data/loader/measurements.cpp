#include "data/loader/measurements.hpp"

#include "base/statistics.hpp"

#include <time.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace trainctl::data {
namespace {

double process_cpu_s() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// The batches of epoch after epoch.
class Stream {
 public:
  Stream(Loader& loader, std::int64_t epoch) : loader_(loader), epoch_(epoch) {
    loader_.start_epoch(epoch);
  }

  const Batch& next() {
    while (true) {
      if (const Batch* batch = loader_.next()) return touched(*batch);
      loader_.start_epoch(++epoch_);
    }
  }

 private:
  // The labels are the last field of every layout.
  const Batch& touched(const Batch& batch) {
    const auto labels = batch.fields.back();
    const auto add = [](unsigned sum, std::byte byte) {
      return sum + std::to_integer<unsigned>(byte);
    };
    sink_ = std::accumulate(labels.begin(), labels.end(), sink_, add);
    return batch;
  }

  Loader& loader_;
  std::int64_t epoch_;
  volatile unsigned sink_ = 0;
};

std::uint64_t warm_up(Loader& loader) {
  std::uint64_t sum = 0;
  loader.start_epoch(0);
  while (const Batch* batch = loader.next()) sum += digest(*batch, loader.layout());
  return sum;
}

}  // namespace

LoaderFigures measure_loader(const Pipeline& pipeline, const LoaderOptions& options,
                             const MeasureLength& length, const Clock& clock,
                             const Consumer& consumer) {
  Loader loader(pipeline, options);
  LoaderFigures figures;
  figures.digest = warm_up(loader);
  Stream stream(loader, 1);
  for (int ready = options.num_workers * options.prefetch_factor; ready > 0; --ready) stream.next();

  const auto wanted =
      static_cast<std::size_t>(length.epochs.value_or(0) * loader.batches_per_epoch());
  std::vector<double> intervals_ms;
  std::int64_t samples = 0;
  const double cpu_start = process_cpu_s();
  const double start = clock.now();
  double last = start;
  while (length.epochs ? intervals_ms.size() < wanted : last - start < length.seconds) {
    const Batch& batch = stream.next();
    if (consumer) consumer(batch);
    samples += batch.valid;
    const double now = clock.now();
    intervals_ms.push_back((now - last) * 1e3);
    last = now;
  }
  figures.cpu_s_per_1k = (process_cpu_s() - cpu_start) / static_cast<double>(samples) * 1e3;
  figures.samples_per_s = static_cast<double>(samples) / (last - start);
  figures.p50_ms = median(intervals_ms);
  figures.p99_ms = quantile(intervals_ms, 0.99);
  figures.skipped = loader.skipped();
  return figures;
}

}  // namespace trainctl::data
