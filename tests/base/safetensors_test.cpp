#include "base/safetensors.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>

using namespace trainctl;

namespace {

std::string file_of(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8)
    bytes.push_back(static_cast<char>((header.size() >> shift) & 0xff));
  return bytes + header + data;
}

std::string error_of(const TempFolder& folder, const std::string& bytes) {
  std::ofstream(folder / "bad.safetensors", std::ios::binary) << bytes;
  try {
    safetensors::File file(folder / "bad.safetensors");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::checkpoint);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("safetensors: written tensors are read back byte for byte") {
  TempFolder folder;
  const std::vector<float> weights{1.5F, -2.0F, 3.25F, 0.0F, 5.0F, 6.0F};
  const std::vector<std::int64_t> steps{7};
  const std::vector<safetensors::View> written{
      {"fc1.weight", "F32", {2, 3}, std::as_bytes(std::span(weights))},
      {"steps", "I64", {}, std::as_bytes(std::span(steps))},
      {"empty", "U8", {0, 4}, {}}};
  safetensors::write(folder / "w.safetensors", written, {{"epoch", "3"}});

  const safetensors::File file(folder / "w.safetensors");
  REQUIRE(file.tensors().size() == 3);
  CHECK(file.tensors()[0].name == "fc1.weight");
  CHECK(file.tensors()[0].shape == std::vector<std::int64_t>{2, 3});
  CHECK(std::memcmp(file.tensors()[0].bytes.data(), weights.data(), 24) == 0);
  CHECK(file.metadata().at("epoch") == "3");
}

TEST_CASE("safetensors: the data begins at a multiple of 8 bytes") {
  TempFolder folder;
  const std::vector<float> one{1.0F};
  for (const std::string name : {"a", "ab", "abc", "abcdefgh"}) {
    const std::vector<safetensors::View> tensors{{name, "F32", {1}, std::as_bytes(std::span(one))}};
    safetensors::write(folder / "w.safetensors", tensors, {});
    CHECK(std::filesystem::file_size(folder / "w.safetensors") % 8 == 4);
    CHECK(safetensors::File(folder / "w.safetensors").tensors()[0].name == name);
  }
}

TEST_CASE("safetensors: a damaged file is rejected with the reason") {
  TempFolder folder;
  CHECK_THAT(error_of(folder, "abc"), Contains("not a safetensors file: it has only 3 bytes"));
  CHECK_THAT(error_of(folder, file_of("{}", "").substr(0, 9)),
             Contains("announce a header of 2 bytes"));
  CHECK_THAT(error_of(folder, file_of("{\"a\":", "")), Contains("cannot parse its header"));
  CHECK_THAT(error_of(folder, file_of("[[[[[[1]]]]]]", "")), Contains("nested"));
  CHECK_THAT(error_of(folder, file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})",
                                      "12345678")),
             Contains("tensor 'a'") && Contains("cover 8 bytes"));
  CHECK_THAT(
      error_of(folder, file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "123")),
      Contains("must be within the 3 bytes"));
  CHECK_THAT(
      error_of(folder, file_of(R"({"a":{"dtype":"F3","shape":[1],"data_offsets":[0,4]}})", "1234")),
      Contains("unknown dtype 'F3'"));
  CHECK_THAT(error_of(folder,
                      file_of(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,4]}})", "1234")),
             Contains("must be a non-negative integer"));
  CHECK_THAT(
      error_of(
          folder,
          file_of(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
                  "")),
      Contains("its shape and dtype need"));
  CHECK_THAT(
      error_of(folder, file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "12")),
      Contains("must follow directly after those of the previous tensor"));
  CHECK_THAT(
      error_of(folder, file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "12")),
      Contains("the file has 1 byte after the end of its last tensor"));
  CHECK_THAT(error_of(folder, file_of(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                                      R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                                      "")),
             Contains("twice"));
}

TEST_CASE("safetensors: an empty tensor may share an offset, and U64 and F8_E4M3 are valid") {
  TempFolder folder;
  const std::string header = R"({"a":{"dtype":"U64","shape":[1],"data_offsets":[0,8]},)"
                             R"("z":{"dtype":"F8_E4M3","shape":[0,3],"data_offsets":[0,0]}})";
  std::ofstream(folder / "w.safetensors", std::ios::binary) << file_of(header, "12345678");
  const safetensors::File file(folder / "w.safetensors");
  REQUIRE(file.tensors().size() == 2);
  CHECK(file.tensors()[0].name == "z");
  CHECK(file.tensors()[1].bytes.size() == 8);
}

TEST_CASE("safetensors: the file is mapped, and a tensor is read when it is accessed") {
  TempFolder folder;
  const std::vector<float> weights(5000, 1.5F);
  const std::vector<safetensors::View> written{
      {"w", "F32", {5000}, std::as_bytes(std::span(weights))}};
  safetensors::write(folder / "w.safetensors", written, {});
  const safetensors::File file(folder / "w.safetensors");
  const auto mapped = file.mapping().bytes();
  CHECK(mapped.size() == std::filesystem::file_size(folder / "w.safetensors"));
  CHECK(file.tensors()[0].bytes.data() + 20000 == mapped.data() + mapped.size());
  const float other = 7;
  std::fstream(folder / "w.safetensors", std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(mapped.size()) - 4)
      .write(reinterpret_cast<const char*>(&other), 4);
  float last = 0;
  std::memcpy(&last, file.tensors()[0].bytes.data() + 19996, 4);
  CHECK(last == 7);
}

TEST_CASE("safetensors: a path that is not a regular file is rejected without blocking") {
  TempFolder folder;
  CHECK_THROWS_WITH(safetensors::File(folder.path()), Contains("must be a regular file"));
  CHECK_THROWS_WITH(safetensors::File(folder / "none"), Contains("cannot open it"));
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(safetensors::File(folder / "pipe"), Contains("must be a regular file"));
}

TEST_CASE("safetensors: a header of 100,000 tensors is accepted") {
  std::string header = "{";
  for (int i = 0; i < 100'000; ++i)
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i) +
              R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  TempFolder folder;
  CHECK(error_of(folder, file_of(header + "}", "")) == "accepted");
}
