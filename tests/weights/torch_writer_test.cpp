#include "weights/torch_writer.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"
#include "weights/torch_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace trainctl;

namespace {

std::span<const std::byte> span_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string zipped(const std::vector<weights::ZipContent>& files, std::uint64_t zip64_from) {
  const TempFolder folder;
  const fs::path path = folder / "archive";
  write_atomically(path, [&](int fd) { weights::write_zip(fd, files, "archive", zip64_from); });
  return read_file(path, 1 << 20, ReadFailure::resource);
}

}  // namespace

TEST_CASE("write_torch_file: reading returns the tensors that were written") {
  const std::vector<float> weight{1, -2, 3.5F, 4, 5, 6};
  const std::vector<std::int64_t> count{std::int64_t{1} << 40};
  const std::vector<std::uint8_t> flags{1, 0, 1};
  const std::string name = "a name with \xc3\xa9, 300 bytes: " + std::string(300, 'x');
  const std::vector<safetensors::View> views{
      {"fc.weight", "F32", {2, 3}, std::as_bytes(std::span(weight))},
      {"bn.num_batches_tracked", "I64", {}, std::as_bytes(std::span(count))},
      {name, "BOOL", {3}, std::as_bytes(std::span(flags))},
      {"empty", "F16", {0, 4}, {}}};
  const TempFolder folder;
  const fs::path path = folder / "weights.pth";
  weights::write_torch_file(path, views);
  const std::string file = read_file(path, 1 << 20, ReadFailure::resource);
  const weights::TorchFile read =
      weights::read_torch_file(span_of(file), weights::Verify::checksums);
  REQUIRE(read.tensors.size() == views.size());
  for (std::size_t i = 0; i < views.size(); ++i) {
    INFO(views[i].name);
    CHECK(read.tensors[i].name == views[i].name);
    CHECK(read.tensors[i].dtype == views[i].dtype);
    CHECK(read.tensors[i].shape == views[i].shape);
    std::vector<std::byte> copy;
    CHECK(std::ranges::equal(weights::row_major(read.tensors[i], copy), views[i].bytes));
  }
  // torch.save uses the same alignment, so that torch.load(mmap=True) can use the data in place.
  for (const weights::ZipEntry& entry : weights::zip_entries(span_of(file))) {
    if (entry.name.find("/data/") != std::string_view::npos)
      CHECK((reinterpret_cast<const char*>(entry.bytes.data()) - file.data()) % 64 == 0);
  }
}

TEST_CASE("write_torch_file: a dtype without a torch.save storage is an error") {
  const std::vector<std::uint8_t> bytes(2);
  const std::vector<safetensors::View> views{
      {"w", "F8_E4M3", {2}, std::as_bytes(std::span(bytes))}};
  const TempFolder folder;
  CHECK_THROWS_WITH(weights::write_torch_file(folder / "w.pth", views),
                    Contains("cannot write tensor 'w'") && Contains("F8_E4M3"));
  CHECK_FALSE(fs::exists(folder / "w.pth"));
}

TEST_CASE("write_zip: archives with and without zip64 fields hold the same files") {
  std::vector<weights::ZipContent> files{
      {"a/data.pkl", "pickle"}, {"a/data/0", "0123456789"}, {"a/empty", ""}};
  for (const std::uint64_t from : {weights::kZip64From, std::uint64_t{100}, std::uint64_t{0}}) {
    INFO(from);
    const std::string archive = zipped(files, from);
    const std::vector<weights::ZipEntry> entries = weights::zip_entries(span_of(archive));
    REQUIRE(entries.size() == files.size());
    for (std::size_t i = 0; i < files.size(); ++i) {
      CHECK(entries[i].name == files[i].name);
      CHECK(std::ranges::equal(entries[i].bytes, span_of(std::string(files[i].bytes))));
      weights::check_crc(entries[i]);
    }
  }
}
