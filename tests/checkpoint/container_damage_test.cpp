#include "base/error.hpp"
#include "base/files.hpp"
#include "checkpoint/container.hpp"
#include "checkpoint/container_files.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace trainctl;
using container::Entry;
using container_files::bytes_of;
using container_files::is_rejected;
using container_files::parse_error;
using container_files::random_text;

namespace {

constexpr std::size_t kSize = 65'536;
constexpr std::size_t kPage = 4096;

/// Returns typical training entries; the last one has `last` bytes.
std::vector<Entry> entries_in(const std::string& data, std::size_t last) {
  const auto bytes = bytes_of(data);
  return {{"model/fc1.weight", "F32", {50, 100}, bytes.subspan(1, 20'000)},
          {"model/fc1.bias", "F32", {50}, bytes.subspan(7, 200)},
          {"optimizer/fc1.weight.exp_avg", "F32", {50, 100}, bytes.subspan(999, 20'000)},
          {"optimizer/step", "I64", {}, bytes.subspan(3, 8)},
          {"ema/empty", "BF16", {0, 3}, {}},
          {"rng", "U8", {static_cast<std::int64_t>(last)}, bytes.subspan(500, last)}};
}

/// Returns an intact file of 64 KiB.
const std::string& intact_file() {
  static const std::string file = [] {
    const std::string data = random_text(kSize, 11);
    const Json meta = Json::parse(R"({"epoch":3,"step":938,"loader":{"position":[1,2,3]}})");
    std::size_t last = 20'000;
    last += kSize - container::file_bytes(entries_in(data, last), meta);
    const TempFolder folder;
    container::write(folder / "a", entries_in(data, last), meta);
    return read_file(folder / "a", kSize, ReadFailure::data);
  }();
  return file;
}

bool flip_is_accepted(std::string& file, std::size_t bit) {
  const auto mask = static_cast<unsigned char>(1U << (bit % 8));
  const auto flip = [&] {
    file[bit / 8] = static_cast<char>(static_cast<unsigned char>(file[bit / 8]) ^ mask);
  };
  flip();
  const bool accepted = !is_rejected(file);
  flip();
  return accepted;
}

}  // namespace

TEST_CASE("container: every flipped bit is detected") {
  std::string file = intact_file();
  REQUIRE(file.size() == kSize);
  REQUIRE(parse_error(file) == "accepted");
  const std::size_t bits = 8 * kSize;
  int undetected = 0;
  if (std::getenv("TRAINCTL_LONG") != nullptr) {
    for (std::size_t bit = 0; bit < bits; ++bit) undetected += flip_is_accepted(file, bit) ? 1 : 0;
  } else {
    std::mt19937_64 draw(12);
    for (std::size_t bit = 0; bit < 256; ++bit) undetected += flip_is_accepted(file, bit) ? 1 : 0;
    for (int i = 0; i < 10'000; ++i) undetected += flip_is_accepted(file, draw() % bits) ? 1 : 0;
  }
  CHECK(undetected == 0);
  CHECK(parse_error(file) == "accepted");
}

TEST_CASE("container: check_file finds the same damage as loading the file") {
  // The file fills several read buffers and a part of another one.
  const std::string large = random_text(5 << 20, 13);
  const TempFolder folder;
  const auto path = folder / "x.part";
  container::write(path, entries_in(large, (4 << 20) + 77), Json(1));
  const std::string whole = read_file(path, large.size(), ReadFailure::data);
  CHECK(container::check_file(path) == container::File(path).header_checksum());
  const auto error_of = [&](const auto& look) -> std::string {
    try {
      look();
    } catch (const Error& error) {
      return error.kind() == ErrorKind::checkpoint ? error.what() : "no Error(checkpoint)";
    }
    return "accepted";
  };
  std::mt19937_64 draw(14);
  int accepted = 0;
  for (int i = 0; i < 30; ++i) {
    std::string file = whole;
    const std::size_t near = i < 15 ? 2000 : whole.size();  // 15 flips are in the header
    char& byte = file[draw() % near];
    byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << (draw() % 8)));
    if (i % 10 == 9) file.resize(draw() % file.size());
    write_atomically(path, file);
    const std::string outcome = error_of([&] { container::check_file(path); });
    CHECK(outcome == error_of([&] { const container::File read(path); }));
    accepted += outcome == "accepted" ? 1 : 0;
  }
  CHECK(accepted == 0);
}

TEST_CASE("container: a truncated file is detected by its length") {
  const std::string& file = intact_file();
  int undetected = 0;
  for (std::size_t size = 0; size < file.size(); ++size)
    undetected += is_rejected(std::string_view(file).substr(0, size)) ? 0 : 1;
  CHECK(undetected == 0);
  CHECK(parse_error(file.substr(0, 5)) ==
        "x.part: the file is truncated, got 5 of at least 32 bytes");
  CHECK(parse_error(file.substr(0, 1024)) ==
        "x.part: the file is truncated, got 1,024 of 65,536 bytes");
  CHECK(parse_error(file.substr(0, 65'535)) ==
        "x.part: the file is truncated, got 65,535 of 65,536 bytes");
}

TEST_CASE("container: appended bytes are an error") {
  CHECK(parse_error(intact_file() + '\0') ==
        "x.part: the file has 65,537 bytes, but its header states 65,536");
  CHECK_THAT(parse_error(intact_file() + std::string(4096, '\0')),
             Contains("has 69,632 bytes, but its header states 65,536"));
  CHECK_THAT(parse_error(intact_file() + intact_file()),
             Contains("has 131,072 bytes, but its header states 65,536"));
}

TEST_CASE("container: a page of zeros or from elsewhere in the file is detected") {
  int undetected = 0;
  for (std::size_t to = 0; to < kSize; to += kPage) {
    std::string file = intact_file();
    file.replace(to, kPage, kPage, '\0');
    undetected += is_rejected(file) ? 0 : 1;
    for (std::size_t from = 0; from < kSize; from += kPage) {
      if (from == to) continue;
      file.replace(to, kPage, intact_file(), from, kPage);
      undetected += is_rejected(file) ? 0 : 1;
    }
  }
  CHECK(undetected == 0);
}

TEST_CASE("container: the error of damaged data names the entry and both checksums") {
  const container::Contents contents = container::parse(bytes_of(intact_file()), "a");
  const auto at = [&](const std::string& name) {
    return static_cast<std::size_t>(contents.find(name)->bytes.data() -
                                    bytes_of(intact_file()).data());
  };
  std::string file = intact_file();
  const std::string name = "optimizer/fc1.weight.exp_avg";
  const std::size_t begin = at(name);
  std::swap(file[begin + 5], file[begin + 6]);
  const std::string damaged = container_files::hex(std::string_view(file).substr(begin, 20'000));
  const std::string right =
      container_files::hex(std::string_view(intact_file()).substr(begin, 20'000));
  REQUIRE(damaged != right);
  CHECK(parse_error(file) ==
        "x.part: '" + name + "': its bytes have changed since they were written: the checksum is " +
            damaged + ", expected " + right);
  file = intact_file();
  file[at("model/fc1.bias") - 1] = 1;
  CHECK(parse_error(file) == "x.part: 'model/fc1.bias': the padding bytes before it must be zero");
  file = intact_file();
  std::swap(file[40], file[41]);
  CHECK_THAT(parse_error(file),
             Contains("x.part: its header has changed since it was written: the checksum is "));
  CHECK(contents.header_checksum == container::parse(bytes_of(intact_file()), "b").header_checksum);
}
