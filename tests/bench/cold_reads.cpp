// Prints the samples per second of one epoch of a pack that is not in the page cache, as a line of
// JSON.
// usage: bench_cold_reads PACK BATCH WORKERS [READ_AHEAD]
// The program first asks the kernel to drop the file's pages. READ_AHEAD is loader.read_ahead, by
// default auto.

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/statistics.hpp"
#include "data/dataset/pack.hpp"
#include "data/formats/file_reader.hpp"
#include "data/loader/measurements.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

using namespace trainctl;
using namespace trainctl::data;

namespace {

double process_cpu_s() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void drop_from_page_cache(const fs::path& path) {
  const FileReader file(path);
  ::fdatasync(file.fd());
  ::posix_fadvise(file.fd(), 0, 0, POSIX_FADV_DONTNEED);
}

Json measure(const std::shared_ptr<const Dataset>& pack, const LoaderOptions& options) {
  Loader loader({pack, {}, {}, {}}, options);
  std::vector<double> intervals_ms;
  unsigned sink = 0;
  std::int64_t samples = 0;
  const double cpu = process_cpu_s();
  const double start = steady_clock().now();
  double last = start;
  loader.start_epoch(0);
  while (const Batch* batch = loader.next()) {
    for (const std::byte byte : batch->fields.back()) sink += std::to_integer<unsigned>(byte);
    samples += batch->valid;
    const double now = steady_clock().now();
    intervals_ms.push_back((now - last) * 1e3);
    last = now;
  }
  const double count = static_cast<double>(samples);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return {{"samples_per_s", count / (last - start)},
          {"samples_per_cpu_s", count / (process_cpu_s() - cpu)},
          {"p50_ms", median(intervals_ms)},
          {"p99_ms", quantile(intervals_ms, 0.99)},
          {"rss_mb", static_cast<double>(usage.ru_maxrss) * 1024 / 1e6},
          {"sink", sink}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    fmt::print(stderr, "usage: bench_cold_reads PACK BATCH WORKERS [READ_AHEAD]\n");
    return 2;
  }
  try {
    LoaderOptions options;
    options.batch_size = std::stoll(argv[2]);
    options.num_workers = std::stoi(argv[3]);
    if (argc == 5) options.read_ahead = std::stoi(argv[4]);
    const auto pack = std::make_shared<const PackDataset>(argv[1]);
    drop_from_page_cache(argv[1]);
    Json found = measure(pack, options);
    found["digest"] = to_hex(digest_epochs({pack, {}, {}, {}}, options, 1).digest);
    fmt::print("{}\n", to_line(found));
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_cold_reads: {}\n", error.what());
    return 1;
  }
  return 0;
}
