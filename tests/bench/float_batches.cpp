// Prints the samples per second of a data set's batches in the format of a CPU run (float32, NCHW,
// normalized), as a line of JSON. The limit for comparison is one thread that gathers and widens
// the rows without a loader.
// usage: bench_float_batches CONFIG WORKERS SECONDS

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "config/diagnostics.hpp"
#include "data/core/pipeline.hpp"
#include "data/loader/measurements.hpp"
#include "data/loader/order.hpp"
#include "device/pixel_conversion.hpp"
#include "spec/load.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

using namespace trainctl;
using namespace trainctl::data;

namespace {

/// Widens batches into one buffer, like the input path of a CPU run.
class Widener {
 public:
  Widener(const Pipeline& pipeline, const ImageShape& shape, std::int64_t batch_size)
      : widen_(shape.channels, pipeline.normalization),
        bytes_(shape.bytes()),
        inputs_(static_cast<std::size_t>(batch_size) * shape.bytes()) {}

  void operator()(std::span<const std::byte> images, std::int64_t rows) {
    widen_(images, rows, std::span(inputs_).first(static_cast<std::size_t>(rows) * bytes_));
  }

 private:
  device::PixelConversion widen_;
  std::size_t bytes_;
  std::vector<float> inputs_;
};

double limit(const Pipeline& pipeline, const LoaderOptions& options, double seconds,
             Widener& widener) {
  const Dataset& dataset = *pipeline.dataset;
  Permutation order(static_cast<std::size_t>(dataset.size()));
  shuffle(order, options.seed, 1);
  const auto batch = std::min(static_cast<std::size_t>(options.batch_size), order.size());
  std::vector<std::vector<std::byte>> fields;
  for (const Field& field : dataset.layout()) fields.emplace_back(batch * field.bytes());
  const std::vector<std::span<std::byte>> rows(fields.begin(), fields.end());
  std::vector<std::int64_t> indices(batch);
  double samples = 0;
  const double start = steady_clock().now();
  while (steady_clock().now() - start < seconds) {
    for (std::size_t at = 0; at + batch <= order.size(); at += batch) {
      std::copy_n(order.begin() + static_cast<std::ptrdiff_t>(at), batch, indices.begin());
      dataset.fill(indices, rows);
      widener(fields[0], static_cast<std::int64_t>(batch));
      samples += static_cast<double>(batch);
    }
  }
  return samples / (steady_clock().now() - start);
}

Json measure(const std::string& config, int workers, double seconds) {
  config::Diagnostics diagnostics;
  const spec::Experiment experiment = spec::load_experiment(config, {}, diagnostics).experiment;
  const spec::DataSplit& split = experiment.dataset.train;
  const Pipeline pipeline = build_pipeline(split);
  LoaderOptions options = loader_options(experiment, Role::train, Shard{});
  options.num_workers = workers;
  const ImageShape shape = image_shape(Facts{.layout = pipeline.dataset->layout()}.image()[0]);
  Widener widener(pipeline, shape, options.batch_size);
  const LoaderFigures found =
      measure_loader(pipeline, options, {.seconds = seconds}, steady_clock(),
                     [&](const Batch& batch) { widener(batch.fields[0], batch.valid); });
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return {{"samples_per_s", found.samples_per_s},
          {"samples_per_cpu_s", 1000 / found.cpu_s_per_1k},
          {"p50_ms", found.p50_ms},
          {"p99_ms", found.p99_ms},
          {"rss_mb", static_cast<double>(usage.ru_maxrss) * 1024 / 1e6},
          {"digest", to_hex(found.digest)},
          {"limit", limit(pipeline, options, 1, widener)},
          {"limit_name", "gather + convert"}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: bench_float_batches CONFIG WORKERS SECONDS\n");
    return 2;
  }
  try {
    fmt::print("{}\n", to_line(measure(argv[1], std::stoi(argv[2]), std::stod(argv[3]))));
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_float_batches: {}\n", error.what());
    return 1;
  }
  return 0;
}
