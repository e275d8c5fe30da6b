#include "base/safetensors.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <cstring>
#include <fstream>

using namespace trainctl;

namespace {

std::string file_of(const std::string& header, const std::string& data) {
  std::string bytes;
  for (int shift = 0; shift < 64; shift += 8)
    bytes.push_back(static_cast<char>((header.size() >> shift) & 0xff));
  return bytes + header + data;
}

std::string complaint(const TempFolder& folder, const std::string& bytes) {
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

TEST_CASE("tensors written to a safetensors file are read back byte for byte") {
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

TEST_CASE("the header of a safetensors file ends on a multiple of eight") {
  TempFolder folder;
  const std::vector<float> one{1.0F};
  for (const std::string name : {"a", "ab", "abc", "abcdefgh"}) {
    const std::vector<safetensors::View> tensors{{name, "F32", {1}, std::as_bytes(std::span(one))}};
    safetensors::write(folder / "w.safetensors", tensors, {});
    CHECK(std::filesystem::file_size(folder / "w.safetensors") % 8 == 4);
    CHECK(safetensors::File(folder / "w.safetensors").tensors()[0].name == name);
  }
}

TEST_CASE("a damaged safetensors file is refused with the reason") {
  TempFolder folder;
  CHECK_THAT(complaint(folder, "abc"), Contains("too few"));
  CHECK_THAT(complaint(folder, file_of("{}", "").substr(0, 9)), Contains("claims 2 bytes"));
  CHECK_THAT(complaint(folder, file_of("{\"a\":", "")), Contains("header is not valid"));
  CHECK_THAT(complaint(folder, file_of("[[[[[[1]]]]]]", "")), Contains("nested"));
  CHECK_THAT(complaint(folder, file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})",
                                       "12345678")),
             Contains("tensor 'a'") && Contains("do not give the 8 bytes"));
  CHECK_THAT(complaint(folder,
                       file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "123")),
             Contains("leave the data of 3 bytes"));
  CHECK_THAT(complaint(folder,
                       file_of(R"({"a":{"dtype":"F3","shape":[1],"data_offsets":[0,4]}})", "1234")),
             Contains("unknown dtype 'F3'"));
  CHECK_THAT(complaint(folder, file_of(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,4]}})",
                                       "1234")),
             Contains("not a whole number"));
  CHECK_THAT(
      complaint(
          folder,
          file_of(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
                  "")),
      Contains("do not give"));
  CHECK_THAT(
      complaint(folder, file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "12")),
      Contains("hole"));
  CHECK_THAT(
      complaint(folder, file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "12")),
      Contains("belong to no tensor"));
  CHECK_THAT(complaint(folder, file_of(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                                       R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                                       "")),
             Contains("twice"));
}
