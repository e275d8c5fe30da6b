// Measures the small costs of fault tolerance: a heartbeat stamp, CRC-32C of memory that is not in
// the cache, writing and reading a container. Prints one line of JSON.
// usage: bench_survive FOLDER [MEGABYTES]

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/statistics.hpp"
#include "checkpoint/container.hpp"
#include "events/heartbeat.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace trainctl;

namespace {

constexpr int kRepeats = 9;

/// Returns the seconds of each repeat.
template <class Work>
std::vector<double> times(Work&& work) {
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    const double began = steady_clock().now();
    work();
    seconds.push_back(steady_clock().now() - began);
  }
  return seconds;
}

/// Converts each time with `figure`, and returns the statistics.
template <class Figure>
Json figures(const std::vector<double>& seconds, Figure&& figure) {
  std::vector<double> values;
  for (const double one : seconds) values.push_back(figure(one));
  const Quartiles found = quartiles(values);
  return {{"median", found.median}, {"q1", found.q1}, {"q3", found.q3}};
}

Json plain(const std::vector<double>& seconds) {
  return figures(seconds, [](double one) { return one; });
}

Json stamp_ns() {
  constexpr std::int64_t kStamps = 200'000;
  const events::HeartbeatPage page = events::HeartbeatPage::create();
  const std::vector<double> seconds = times([&] {
    for (std::int64_t step = 0; step < kStamps; ++step)
      page.get().stamp(events::Phase::train, step);
  });
  return figures(seconds, [](double one) { return one * 1e9 / static_cast<double>(kStamps); });
}

std::vector<std::byte> noise(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint64_t state = 1;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    byte = static_cast<std::byte>(state >> 56U);
  }
  return bytes;
}

Json measure(const fs::path& folder, std::size_t megabytes) {
  const std::vector<std::byte> bytes = noise(megabytes * 1'000'000);
  const double gigabytes = static_cast<double>(bytes.size()) / 1e9;
  std::uint32_t sum = 0;
  const std::vector<double> checksum = times([&] { sum ^= crc32c(bytes, sum); });
  const std::vector<container::Entry> entries{
      {"model/weight", "U8", {static_cast<std::int64_t>(bytes.size())}, bytes}};
  const fs::path path = folder / "bench_survive.part";
  const std::vector<double> written =
      times([&] { container::write(path, entries, Json::object()); });
  const std::vector<double> read = times([&] { sum ^= container::File(path).header_checksum(); });
  fs::remove(path);
  return {{"schema", "trainctl.bench_survive/2"},
          {"megabytes", megabytes},
          {"stamp_ns", stamp_ns()},
          {"crc32c_gb_s", figures(checksum, [&](double one) { return gigabytes / one; })},
          {"write_s", plain(written)},
          {"verify_s", plain(read)},
          {"ignored", sum}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    fmt::print(stderr, "usage: bench_survive FOLDER [MEGABYTES]\n");
    return 2;
  }
  try {
    const std::size_t megabytes = argc == 3 ? std::stoul(argv[2]) : 100;
    fmt::print("{}\n", to_line(measure(argv[1], megabytes)));
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_survive: {}\n", error.what());
    return 1;
  }
  return 0;
}
