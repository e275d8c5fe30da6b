#include "checkpoint/container.hpp"
#include "checkpoint/container_files.hpp"
#include "support/catch.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace trainctl;
using namespace container_files;

// These files have valid checksums, but container::write never produces them.
namespace {

/// Parses a file of two 8-byte entries, at 0 and at 64, after `change`, and returns the error.
std::string changed(const std::function<void(Json& header)>& change) {
  const std::string a(8, 'a');
  const std::string b(8, 'b');
  Json header = header_of({listed("a", a, 0), listed("b", b, 64)});
  change(header);
  return parse_error(file_of(header.dump(), a + std::string(56, '\0') + b));
}

/// Changes one value of the second entry.
std::string with(const char* key, const Json& value) {
  return changed([&](Json& header) { header["entries"][1][key] = value; });
}

/// Changes the shape and length of the second entry.
std::string sized(const Json& shape, const Json& length) {
  return changed([&](Json& header) {
    header["entries"][1]["shape"] = shape;
    header["entries"][1]["length"] = length;
  });
}

std::string nested(std::size_t depth) {
  return R"({"entries":[],"meta":)" + std::string(depth, '[') + std::string(depth, ']') + "}";
}

}  // namespace

TEST_CASE("container: a hand-written header is read") {
  CHECK(changed([](Json&) {}) == "accepted");
  CHECK(parse_error(bare_file(R"({"entries":[],"meta":null})")) == "accepted");
  CHECK(with("shape", Json::array({2, 1, 4})) == "accepted");
  CHECK(parse_error(bare_file(nested(63))) == "accepted");
}

TEST_CASE("container: a prefix with sizes beyond the file is an error") {
  const std::string header = R"({"entries":[],"meta":0})";
  const auto with_number = [&](std::size_t at, std::uint64_t value) {
    std::string file = bare_file(header);
    put_number(file, at, value, 8);
    return parse_error(file);
  };
  const std::uint64_t all = 32 + header.size();
  CHECK_THAT(with_number(16, std::uint64_t{1} << 60), Contains("truncated, got 55 of 1,152,921"));
  CHECK_THAT(with_number(16, ~std::uint64_t{0}), Contains("truncated, got 55 of 9,223,372,036"));
  CHECK_THAT(with_number(16, all - 1), Contains("has 55 bytes, but its header states 54"));
  CHECK_THAT(with_number(24, header.size() + 1),
             Contains("states a length of 24 bytes, but only 23 follow"));
  CHECK_THAT(with_number(24, ~std::uint64_t{0}), Contains("the limit of 16,777,216 bytes"));
  CHECK_THAT(with_number(24, header.size() - 1),
             Contains("its header has changed since it was written"));
  CHECK_THAT(with_number(0, 0), Contains("is not a checkpoint of trainctl"));
}

TEST_CASE("container: a header may have at most 16 MiB") {
  std::string header = R"({"entries":[],"meta":0})";
  header.resize(16 << 20, ' ');
  CHECK(parse_error(bare_file(header)) == "accepted");
  header += ' ';
  CHECK_THAT(parse_error(bare_file(header)),
             Contains("a length of 16,777,217 bytes, more than the limit of 16,777,216 bytes"));
}

TEST_CASE("container: the error for another format version names it") {
  std::string file = bare_file(R"({"entries":[],"meta":0})");
  seal(file, file.size() - 32, 2);
  CHECK(parse_error(file) == "x.part: the file was written by a newer trainctl (format 2)");
  seal(file, file.size() - 32, 0);
  CHECK(parse_error(file) == "x.part: unknown format 0");
  seal(file, file.size() - 32, 1);
  CHECK(parse_error(file) == "accepted");
}

TEST_CASE("container: holes, overlaps and offsets out of order are an error") {
  CHECK_THAT(with("offset", 128), Contains("'b': its offset 128 leaves a gap, expected 64"));
  CHECK_THAT(with("offset", 0), Contains("'b': its offset 0 overlaps the entry before it"));
  CHECK_THAT(with("offset", 8), Contains("'b': its offset 8 is not a multiple of 64"));
  CHECK_THAT(with("offset", std::uint64_t{1} << 63), Contains("leaves a gap"));
  CHECK_THAT(changed([](Json& header) { header["entries"].push_back(listed("c", "cccc", 0)); }),
             Contains("'c': its offset 0 is out of order"));
  CHECK_THAT(changed([](Json& header) {
               header["entries"][0]["offset"] = 64;
               header["entries"][1]["offset"] = 0;
             }),
             Contains("'a': its offset 64 leaves a gap"));
  CHECK_THAT(changed([](Json& header) { header["entries"].erase(std::size_t{1}); }),
             Contains("64 bytes at the end of the file belong to no tensor"));
}

TEST_CASE("container: entries must end where the file ends") {
  CHECK_THAT(sized({9}, 9),
             Contains("'b': its 9 bytes at offset 64 extend beyond the data of 72 bytes"));
  CHECK_THAT(sized({7}, 7), Contains("1 bytes at the end of the file belong to no tensor"));
  const std::uint64_t much = (std::uint64_t{1} << 63) - 1;
  CHECK_THAT(sized({much}, much), Contains("extend beyond the data of 72 bytes"));
  CHECK_THAT(parse_error(bare_file(header_of({listed("a", "", 0)}).dump())),
             Contains("before its data begins"));
  CHECK_THAT(parse_error(file_of(R"({"entries":[],"meta":0})", "")),
             Contains("9 bytes at the end of the file belong to no tensor"));
}

TEST_CASE("container: a name that is listed twice is an error") {
  CHECK_THAT(with("name", "a"), Contains("x.part: 'a' is listed twice"));
}

TEST_CASE("container: shape and length of an entry must match") {
  CHECK_THAT(with("length", 9), Contains("its length of 9 bytes does not match"));
  CHECK_THAT(with("dtype", "F32"), Contains("'b': its length of "));
  CHECK_THAT(sized({4294967296, 4294967296}, 0), Contains("its length of 0 bytes does not match"));
  CHECK_THAT(sized({4611686018427387904, 4, 2}, 8), Contains("does not match its shape and dtype"));
  CHECK_THAT(with("shape", Json::array({-8})), Contains("a size in its shape must be an integer"));
  CHECK_THAT(sized({-2, -4}, 8), Contains("must be an integer"));
  CHECK_THAT(with("shape", Json::array({8.0})), Contains("must be an integer"));
  CHECK_THAT(with("shape", Json::array({std::uint64_t{1} << 63})), Contains("must be an integer"));
  CHECK_THAT(with("shape", 8), Contains("its shape must be a list"));
}

TEST_CASE("container: a header value of the wrong type is reported with its key") {
  CHECK_THAT(with("dtype", "F3"), Contains("'b': its dtype 'F3' is unknown"));
  CHECK_THAT(with("dtype", 3), Contains("its dtype must be a string"));
  CHECK_THAT(with("name", 3), Contains("entry 1 of its header: its name must be a string"));
  CHECK_THAT(with("offset", -64), Contains("its offset must be an integer"));
  CHECK_THAT(with("length", 8.0), Contains("its length must be an integer"));
  CHECK_THAT(with("crc32c", 123), Contains("its crc32c must be a string"));
  for (const char* text : {"1234567", "123456789", "1234567G", "ABCDEF01", "+1234567", ""})
    CHECK_THAT(with("crc32c", text), Contains("its crc32c must be 8 hexadecimal digits"));
}

TEST_CASE("container: the keys of a header are required, and unknown keys are an error") {
  for (const char* key : {"name", "dtype", "shape", "offset", "length", "crc32c"}) {
    const auto lost = [&](Json& header) { header["entries"][1].erase(key); };
    CHECK_THAT(changed(lost), Contains("'" + std::string(key) + "' is missing"));
  }
  CHECK_THAT(with("color", 1), Contains("'b': its key 'color' is unknown in format 1"));
  CHECK_THAT(changed([](Json& header) { header["more"] = 1; }),
             Contains("its header: its key 'more' is unknown in format 1"));
  CHECK_THAT(changed([](Json& header) { header.erase("meta"); }), Contains("'meta' is missing"));
  CHECK_THAT(changed([](Json& header) { header.erase("entries"); }),
             Contains("'entries' is missing"));
  CHECK_THAT(changed([](Json& header) { header["entries"] = 1; }), Contains("must be a list"));
  CHECK_THAT(changed([](Json& header) { header["entries"][1] = 1; }),
             Contains("entry 1 of its header: it must be a JSON object"));
}

TEST_CASE("container: padding that is not zero is an error although no checksum covers it") {
  const std::string a(8, 'a');
  const std::string header = header_of({listed("a", a, 0), listed("b", a, 64)}).dump();
  std::string file = file_of(header, a + std::string(56, '\0') + a);
  REQUIRE(parse_error(file) == "accepted");
  for (const auto& [at, name] : std::vector<std::pair<std::size_t, std::string>>{
           {32 + header.size(), "a"}, {file.size() - 9, "b"}, {file.size() - 64, "b"}}) {
    file[at] = 1;
    CHECK_THAT(parse_error(file),
               Contains("'" + name + "': the padding bytes before it must be zero"));
    file[at] = 0;
  }
  CHECK(parse_error(file) == "accepted");
}

TEST_CASE("container: a header that is not JSON, nested too deep or too large is an error") {
  const auto error_of = [](const std::string& header) { return parse_error(bare_file(header)); };
  CHECK_THAT(error_of(""), Contains("its header is not valid JSON"));
  CHECK_THAT(error_of(R"({"entries":[],"meta":0)"), Contains("not valid JSON"));
  CHECK_THAT(error_of(R"({"entries":[],"meta":0}x)"), Contains("not valid JSON at byte 24"));
  CHECK_THAT(error_of("{\"entries\":[],\"meta\":\"\xff\"}"), Contains("not valid JSON"));
  CHECK_THAT(error_of(R"({"entries":[],"meta":1e999})"), Contains("not valid JSON"));
  CHECK_THAT(error_of("[]"), Contains("its header: it must be a JSON object"));
  CHECK_THAT(error_of(R"({"entries":[],"meta":0,"meta":0})"), Contains("names 'meta' twice"));
  CHECK_THAT(error_of(R"({"entries":[],"meta":{"x":{"y":1},"x":2}})"), Contains("names 'x' twice"));
  CHECK_THAT(error_of(nested(64)), Contains("its header is nested more than 64 levels deep"));
  CHECK_THAT(error_of(nested(1'000'000)), Contains("nested more than 64 levels deep"));
  std::string many = R"({"entries":[],"meta":[0)";
  for (int i = 0; i < 1'000'000; ++i) many += ",0";
  CHECK_THAT(error_of(many + "]}"), Contains("its header holds more than 1000000 values"));
}

TEST_CASE("container: a header with 200,000 keys or 50,000 entries is accepted") {
  std::string map = "{";
  for (int i = 0; i < 200'000; ++i) map += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
  CHECK(parse_error(bare_file(R"({"entries":[],"meta":)" + map + "}}")) == "accepted");
  std::string list;
  for (int i = 0; i < 50'000; ++i)
    list += (i == 0 ? "" : ",") + listed(std::to_string(i), "", 0).dump();
  const std::string file = file_of(R"({"meta":0,"entries":[)" + list + "]}", "");
  const container::Contents contents = container::parse(bytes_of(file), "x");
  REQUIRE(contents.find("49999") != nullptr);
  CHECK(contents.find("49999") == &contents.entries[49'999]);
}
