#include "checkpoint/container.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "checkpoint/container_files.hpp"
#include "support/catch.hpp"
#include "support/file_limit.hpp"
#include "support/temp_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

using namespace trainctl;
using container::Entry;
using container_files::bytes_of;
using container_files::random_text;

namespace {

bool same(const Entry& a, const Entry& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape &&
         std::ranges::equal(a.bytes, b.bytes);
}

/// Checks that the file has the predicted size and reads back unchanged.
void check_round_trip(const std::vector<Entry>& written, const Json& meta) {
  const TempFolder folder;
  const auto path = folder / "rank_0.part";
  container::write(path, written, meta);
  CHECK(std::filesystem::file_size(path) == container::file_bytes(written, meta));
  const container::File file(path);
  CHECK(file.meta() == meta);
  REQUIRE(file.entries().size() == written.size());
  for (std::size_t i = 0; i < written.size(); ++i) {
    INFO(written[i].name);
    CHECK(same(file.entries()[i], written[i]));
    CHECK(file.find(written[i].name) == &file.entries()[i]);
    CHECK(reinterpret_cast<std::uintptr_t>(file.entries()[i].bytes.data()) % 64 == 0);
  }
  CHECK(file.find("none of this name") == nullptr);
}

/// Returns the error of writing, or "written". Checks that a failed write leaves no file.
std::string write_error(const std::vector<Entry>& entries, const Json& meta) {
  const TempFolder folder;
  std::string outcome = "written";
  try {
    container::write(folder / "a", entries, meta);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::checkpoint);
    outcome = error.what();
  }
  CHECK(std::filesystem::is_empty(folder.path()) == (outcome != "written"));
  return outcome;
}

}  // namespace

TEST_CASE("container: every dtype, empty tensors and scalars are restored byte for byte") {
  const std::string data = random_text(8 * 35, 1);
  std::vector<Entry> entries{{"scalar", "F64", {}, bytes_of(data).first(8)},
                             {"empty", "F32", {0, 4}, {}},
                             {"one", "U8", {1}, bytes_of(data).first(1)},
                             {"empty too", "I64", {0}, {}}};
  for (const auto& [dtype, size] : std::vector<std::pair<std::string, std::size_t>>{{"F64", 8},
                                                                                    {"F32", 4},
                                                                                    {"F16", 2},
                                                                                    {"BF16", 2},
                                                                                    {"I64", 8},
                                                                                    {"I32", 4},
                                                                                    {"I16", 2},
                                                                                    {"I8", 1},
                                                                                    {"U8", 1},
                                                                                    {"U16", 2},
                                                                                    {"U32", 4},
                                                                                    {"BOOL", 1}})
    entries.push_back({"all/" + dtype, dtype, {5, 1, 7}, bytes_of(data).first(35 * size)});
  check_round_trip(entries, Json::object());
}

TEST_CASE("container: metadata and UTF-8 names are restored, also without entries") {
  const Json meta = Json::parse(
      R"({"z":1,"a":{"list":[1,-2,2.5,true,null,"\u0000"],"größe":"重み","last":[]},"m":18446744073709551615,
      "tiny":5e-324,"third":0.3333333333333333,"whole":3.0})");
  check_round_trip({}, meta);
  check_round_trip({}, Json());
  const std::string data = random_text(100, 2);
  check_round_trip({{"größe/重み", "U8", {100}, bytes_of(data)},
                    {"", "I8", {3}, bytes_of(data).first(3)},
                    {"a \"quoted\"\n\\name", "U8", {2, 2}, bytes_of(data).first(4)}},
                   meta);
}

TEST_CASE("container: entries that need several calls of writev are restored") {
  const std::string data = random_text(3000, 3);
  std::vector<Entry> entries;
  for (int i = 0; i < 3000; ++i) {
    const auto size = static_cast<std::size_t>(i % 130);
    entries.push_back({"p" + std::to_string(i), "U8", {i % 130}, bytes_of(data).first(size)});
  }
  check_round_trip(entries, Json(3));
}

TEST_CASE("container: the bytes are those of format 1") {
  const TempFolder folder;
  const std::vector<float> w{1.5F, -2.0F, 0.25F};
  const std::vector<std::int64_t> step{7};
  const std::vector<Entry> entries{{"w", "F32", {3}, std::as_bytes(std::span(w))},
                                   {"step", "I64", {}, std::as_bytes(std::span(step))}};
  container::write(folder / "a", entries, Json::parse(R"({"epoch":3})"));
  const std::string file = read_file(folder / "a", 1000, ReadFailure::data);
  using namespace std::string_literals;
  const std::string header =
      R"({"meta":{"epoch":3},"entries":[)"
      R"({"name":"w","dtype":"F32","shape":[3],"offset":0,"length":12,"crc32c":"b2d4509a"},)"
      R"({"name":"step","dtype":"I64","shape":[],"offset":64,"length":8,"crc32c":"7671b78e"}]})";
  REQUIRE(file.size() == 328);
  CHECK(file.substr(0, 32) ==
        "TCTLCKPT\x01\0\0\0\x0c\xfa\x1c\x0c\x48\x01\0\0\0\0\0\0\xc6\0\0\0\0\0\0\0"s);
  CHECK(file.substr(32, header.size()) == header);
  CHECK(file.substr(32 + header.size(), 26) == std::string(26, '\0'));
  CHECK(file.substr(256, 12) == "\0\0\xc0\x3f\0\0\0\xc0\0\0\x80\x3e"s);
  CHECK(file.substr(256 + 12, 52) == std::string(52, '\0'));
  CHECK(file.substr(256 + 64) == "\x07\0\0\0\0\0\0\0"s);
  CHECK(container::File(folder / "a").header_checksum() == 0x0c1cfa0c);
}

TEST_CASE("container: entries that could not be read back are not written") {
  const std::string data(8, 'x');
  const Entry readable{"a", "U8", {8}, bytes_of(data)};
  const Json none = Json::object();
  CHECK(write_error({readable}, none) == "written");
  CHECK_THAT(write_error({readable, readable}, none), Contains("'a' is listed twice"));
  CHECK_THAT(write_error({{"a", "U8", {7}, bytes_of(data)}}, none),
             Contains("'a': its length of 8 bytes does not match its shape and dtype"));
  CHECK_THAT(write_error({{"a", "F8", {8}, bytes_of(data)}}, none),
             Contains("dtype 'F8' is unknown"));
  CHECK_THAT(write_error({{"a", "U8", {-8}, bytes_of(data)}}, none),
             Contains("must be an integer"));
  CHECK_THAT(write_error({{"a\xff", "U8", {8}, bytes_of(data)}}, none),
             Contains("'a\\xff' is not valid UTF-8"));
  const double infinite = std::numeric_limits<double>::infinity();
  CHECK_THAT(write_error({readable}, Json::array({infinite})), Contains("finite numbers"));
  CHECK_THAT(write_error({readable}, Json("\xff")),
             Contains("must be finite numbers or UTF-8 text"));
  CHECK_THAT(write_error({readable}, Json(std::string(16 << 20, 'x'))),
             Contains("more than the limit of 16,777,216"));
}

TEST_CASE("container: a failed write is a resource error and leaves no file") {
  const TempFolder folder;
  const std::string data = random_text(1 << 20, 4);
  const std::vector<Entry> entries{{"a", "U8", {1 << 19}, bytes_of(data).first(1 << 19)},
                                   {"b", "U8", {1 << 19}, bytes_of(data).last(1 << 19)}};
  container::write(folder / "old", {}, Json(1));
  const auto limited = [&](const std::string& name, rlim_t bytes) -> std::string {
    const FileLimit limit(bytes);
    try {
      container::write(folder / name, entries, Json(2));
    } catch (const Error& error) {
      return error.kind() == ErrorKind::resource ? error.what() : "another error";
    }
    return "written";
  };
  for (const rlim_t bytes : {rlim_t{0}, rlim_t{10}, rlim_t{700'000}, rlim_t{1 << 20}}) {
    CHECK_THAT(limited("new", bytes), Contains("new: File too large"));
    CHECK_THAT(limited("old", bytes), Contains("old: File too large"));
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  CHECK(container::File(folder / "old").meta() == Json(1));
}

TEST_CASE("container: the error of a full disk names the file") {
  if (::access("/dev/full", W_OK) != 0) skip("no /dev/full");
  const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  CHECK_THROWS_WITH(container::write_to(full.get(), {}, Json(), "rank_3.part"),
                    Contains("rank_3.part") && Contains("No space left"));
}

TEST_CASE("container: a missing file, a folder or a pipe is an error without blocking") {
  const TempFolder folder;
  const auto error_of = [&](const std::string& name) -> std::string {
    try {
      const container::File file(folder / name);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::checkpoint);
      return error.what();
    }
    return "accepted";
  };
  CHECK_THAT(error_of("none"), Contains("none: cannot open it: No such file"));
  CHECK_THAT(error_of("."), Contains("must be a regular file"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(error_of("pipe"), Contains("pipe: it must be a regular file"));
  write_atomically(folder / "text", std::string(100, 'x'));
  CHECK_THAT(error_of("text"), Contains("text: the file is not a checkpoint of trainctl"));
  write_atomically(folder / "nothing", "");
  CHECK_THAT(error_of("nothing"),
             Contains("nothing: the file is truncated, got 0 of at least 32 bytes"));
  container::write(folder / "cut", {}, Json(1));
  std::filesystem::resize_file(folder / "cut", 40);
  CHECK_THAT(error_of("cut"), Contains("cut: the file is truncated, got 40 of "));
}

TEST_CASE("container: a file that cannot be read is not reported as damaged") {
  const TempFolder folder;
  container::write(folder / "a", {}, Json(1));
  const auto kind = [&] {
    try {
      const container::File file(folder / "a");
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::unexpected;
  };
  // No file descriptor is left. An actual disk error cannot be simulated here.
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  rlimit none = before;
  none.rlim_cur = 0;
  ::setrlimit(RLIMIT_NOFILE, &none);
  const ErrorKind found = kind();
  ::setrlimit(RLIMIT_NOFILE, &before);
  CHECK(found == ErrorKind::resource);
}

TEST_CASE("container: moving the object keeps the addresses of the entries") {
  const TempFolder folder;
  const std::string data = random_text(64, 5);
  container::write(folder / "a", std::vector<Entry>{{"a", "U8", {64}, bytes_of(data)}}, Json());
  container::File file(folder / "a");
  const container::File moved = std::move(file);
  REQUIRE(moved.find("a") != nullptr);
  CHECK(std::ranges::equal(moved.find("a")->bytes, bytes_of(data)));
}
