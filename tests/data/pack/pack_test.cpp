#include "data/dataset/pack.hpp"

#include "data/core/registry.hpp"
#include "data/loader/measurements.hpp"
#include "data/pack/make_pack.hpp"
#include "data/varied.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"
#include "support/golden.hpp"
#include "support/temp_folder.hpp"

#include <cstring>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

PackOptions with_workers(int workers) {
  PackOptions options;
  options.workers = workers;
  return options;
}

std::string packed(const Dataset& dataset, const TempFolder& folder, int workers = 1) {
  const fs::path path = folder / "samples.pack";
  fs::remove(path);
  make_pack(dataset, path, with_workers(workers));
  return golden::read(path);
}

void write(const fs::path& path, std::string_view bytes) {
  fs::remove(path);  // ext4 flushes a file that is truncated and rewritten, which is slow
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Opens the pack and reads all images.
void read_all(const fs::path& path) {
  const PackDataset pack(path);
  std::vector<std::byte> scratch;
  for (std::int64_t i = 0; i < pack.size(); ++i) (void)pack.read(i, scratch);
}

/// Returns the pack with a changed header and a valid header checksum.
std::string with_header(std::string pack, const std::function<void(PackHeader&)>& change) {
  PackHeader header;
  std::memcpy(&header, pack.data(), sizeof header);
  change(header);
  return pack.replace(0, kPackPage, header_page(header));
}

}  // namespace

TEST_CASE("pack: images, labels and names are those of the source") {
  const TempFolder folder;
  const VariedDataset source(30);
  packed(source, folder);
  const PackDataset pack(folder / "samples.pack");
  CHECK(pack.size() == 30);
  CHECK(pack.classes() == 3);
  CHECK(pack.layout() == source.layout());
  CHECK(PackHead(folder / "samples.pack").facts().layout == source.layout());
  CHECK(pack.header().recipe_text() == "keep");
  CHECK(read_labels(pack) == read_labels(source));
  std::vector<std::byte> scratch;
  for (std::int64_t i = 0; i < 30; ++i) {
    const StoredImage found = pack.read(i, scratch);
    CHECK(scratch.empty());
    const StoredImage expected = source.read(i, scratch);
    CHECK(found.raw == expected.raw);
    CHECK(std::ranges::equal(found.bytes, expected.bytes));
    CHECK(pack.name(i) == source.name(i));
    scratch.clear();
  }
}

TEST_CASE("pack: raw images of one size have a fixed layout and need no transform") {
  const TempFolder folder;
  const CountingDataset source(25);
  packed(source, folder);
  const auto pack = std::make_shared<PackDataset>(folder / "samples.pack");
  CHECK(pack->layout() == source.layout());
  const Pipeline plain = counting(25);
  for (const int workers : {0, 2}) {
    LoaderOptions options;
    options.batch_size = 4;
    options.num_workers = workers;
    CHECK(digest_epochs({pack, {}, {}, {}}, options, 2).epochs ==
          digest_epochs(plain, options, 2).epochs);
  }
}

TEST_CASE("make_pack: the file is bitwise equal for any number of workers") {
  const TempFolder folder;
  const VariedDataset source(203);
  const std::string expected = packed(source, folder);
  for (const int workers : {2, 8}) CHECK(packed(source, folder, workers) == expected);
}

TEST_CASE("make_pack: an interrupted pack is resumed with the same bytes") {
  const TempFolder folder;
  const VariedDataset source(60);
  const std::string expected = packed(source, folder);
  const fs::path path = folder / "samples.pack";
  for (const std::int64_t stop : {1, 7, 59, 60}) {
    fs::remove(path);
    const auto interrupt = [&](std::int64_t done, std::int64_t) {
      ENSURE(interrupted, done != stop, "stop");
    };
    CHECK(failure_of([&] {
            make_pack(source, path, with_workers(2), {{}, interrupt});
          }) == "130: stop");
    CHECK(!fs::exists(path));
    const PackReport report = make_pack(source, path, with_workers(3));
    CHECK(report.found == stop);
    CHECK(golden::read(path) == expected);
    CHECK(report.bytes == expected.size());
    CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
  }
}

TEST_CASE("make_pack: a truncated or damaged partial file or journal gives the same pack") {
  const TempFolder folder;
  const VariedDataset source(9);
  const std::string expected = packed(source, folder);
  const fs::path path = folder / "samples.pack";
  fs::remove(path);
  failure_of([&] {
    make_pack(source, path, {},
              {{}, [](std::int64_t done, std::int64_t) { ENSURE(interrupted, done < 8, "stop"); }});
  });
  const std::string partial = golden::read(path.string() + ".partial");
  const std::string journal = golden::read(path.string() + ".journal");
  const auto crash_with = [&](const std::string& data, const std::string& records) {
    fs::remove(path);
    write(path.string() + ".partial", data);
    write(path.string() + ".journal", records);
    make_pack(source, path, {});
    return golden::read(path) == expected;
  };
  bool same = true;
  for (std::size_t length = 0; length <= journal.size(); length += 61)
    same &= crash_with(partial, journal.substr(0, length));
  for (std::size_t length = 0; length <= partial.size(); length += 401)
    same &= crash_with(partial.substr(0, length), journal);
  for (std::size_t at = 24; at < journal.size(); at += 83) {  // skips the header of the journal
    std::string damaged = journal;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    same &= crash_with(partial, damaged);
  }
  CHECK(same);
}

TEST_CASE(
    "make_pack: a complete pack is not written again, and any other file is not overwritten") {
  const TempFolder folder;
  VariedDataset source(12);
  const std::string before = packed(source, folder);
  const fs::path path = folder / "samples.pack";
  const PackReport again = make_pack(source, path, {});
  CHECK(again.found == 12);
  CHECK(golden::read(path) == before);
  source.content = "changed";
  CHECK_THAT(
      failure_of([&] { make_pack(source, path, {}); }),
      Contains("2: ") && Contains("was made from other samples or with other options (keep"));
  write(path, "a letter");
  CHECK_THAT(failure_of([&] { make_pack(source, path, {}); }),
             Contains("2: ") && Contains("cannot overwrite an existing file: "));
  CHECK(golden::read(path) == "a letter");
}

TEST_CASE("make_pack: a partial file of other samples is an error") {
  const TempFolder folder;
  const fs::path path = folder / "samples.pack";
  VariedDataset source(12);
  failure_of([&] {
    make_pack(source, path, {},
              {{}, [](std::int64_t, std::int64_t) { ENSURE(interrupted, false, "stop"); }});
  });
  source.content = "changed";
  CHECK_THAT(
      failure_of([&] { make_pack(source, path, {}); }),
      Contains("2: ") && Contains("was started from other samples, with other options or by"));
}

TEST_CASE("make_pack: a second writer of the same file is an error") {
  const TempFolder folder;
  const VariedDataset source(12);
  std::string second;
  const auto try_second = [&](std::int64_t done, std::int64_t) {
    if (done == 3) second = failure_of([&] { make_pack(source, folder / "samples.pack", {}); });
  };
  make_pack(source, folder / "samples.pack", {}, {{}, try_second});
  CHECK_THAT(second, Contains("11: another process is writing"));
}

TEST_CASE("pack: every truncation is an error with file and byte") {
  const TempFolder folder;
  const std::string whole = packed(VariedDataset(3), folder);
  const fs::path path = folder / "cut.pack";
  bool all_located = true;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write(path, whole.substr(0, length));
    const std::string failure = failure_of([&] { PackDataset{path}; });
    const std::string facts = failure_of([&] { PackHead{path}; });
    all_located &= failure.starts_with("9: ") && failure == facts &&
                   failure.find("cut.pack") != std::string::npos &&
                   (length == 0 || failure.find("byte") != std::string::npos);
  }
  CHECK(all_located);
  write(path, whole + "x");
  CHECK_THAT(failure_of([&] { PackDataset{path}; }), Contains("9: ") && Contains("too long"));
}

TEST_CASE("pack: a flipped bit in any byte is detected") {
  const TempFolder folder;
  const std::string whole = packed(VariedDataset(3), folder);
  const fs::path path = folder / "damaged.pack";
  bool found = true;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
    write(path, damaged);
    found &= failure_of([&] { read_all(path); }).starts_with("9: ");
  }
  CHECK(found);
  std::string damaged = whole;
  damaged[kPackPage] ^= 1;
  write(path, damaged);
  CHECK_THAT(failure_of([&] { read_all(path); }),
             Contains("damaged.pack is damaged: ") && Contains("at byte 4096) is wrong"));
}

TEST_CASE("pack: invalid header values with a valid checksum are data errors") {
  const TempFolder folder;
  const std::string whole = packed(VariedDataset(3), folder);
  const auto opened = [&](const std::function<void(PackHeader&)>& change) {
    write(folder / "header.pack", with_header(whole, change));
    return failure_of([&] { PackDataset{folder / "header.pack"}; });
  };
  constexpr auto kHuge = std::numeric_limits<std::uint64_t>::max();
  CHECK(opened([](PackHeader&) {}).empty());
  CHECK_THAT(opened([](PackHeader& h) { h.samples = 1LL << 60; }),
             Contains("9: ") && Contains("the pack is cut off"));
  CHECK_THAT(opened([](PackHeader& h) { h.samples = -1; }), Contains("9: "));
  CHECK_THAT(opened([](PackHeader& h) { h.samples = 0; }), Contains("9: "));
  CHECK_THAT(opened([](PackHeader& h) { h.data_bytes = kHuge - 40; }), Contains("9: "));
  CHECK_THAT(opened([](PackHeader& h) { h.names_bytes = kHuge; }), Contains("9: "));
  CHECK_THAT(opened([](PackHeader& h) { h.version = 1; }),
             Contains("9: ") && Contains("is a pack of version 1 (byte 8)"));
  CHECK_THAT(opened([](PackHeader& h) { h.channels = 5; }), Contains("9: "));
  CHECK_THAT(opened([](PackHeader& h) { h.height = 5; }), Contains("9: "));
  CHECK_THAT(opened([](PackHeader& h) { h.classes = 1; }), Contains("its index entry of sample 1"));
  CHECK_THAT(opened([](PackHeader& h) {
               h.height = 9;
               h.width = 9;
             }),
             Contains("its index entry of sample 0"));
  CHECK_THAT(opened([](PackHeader& h) { h.data_bytes += 48, --h.samples; }),
             Contains("the checksum of its index"));
}

TEST_CASE("make_pack: samples that are not labeled images are an error") {
  class Plain final : public Dataset {
   public:
    [[nodiscard]] std::int64_t size() const override { return 1; }
    [[nodiscard]] const Layout& layout() const override { return layout_; }
    [[nodiscard]] std::int64_t classes() const override { return 0; }
    void fill(std::span<const std::int64_t>, Rows) const override {}
    [[nodiscard]] std::string fingerprint() const override { return ""; }

   private:
    Layout layout_{{"tokens", Dtype::i64, {8}}};
  };
  const TempFolder folder;
  CHECK_THAT(failure_of([&] { make_pack(Plain(), folder / "x.pack", {}); }),
             Contains("2: a pack contains images with one class each") &&
                 Contains("of this data set have 'tokens' (8 whole numbers)"));
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("pack: the stage reads a pack and rejects one that was made from another source") {
  const TempFolder folder;
  const Catalog catalog = builtin_catalog();
  spec::dataset::SyntheticDigits digits;
  digits.samples = 20;
  const auto source = config::make_stage("dataset", "synthetic_digits", digits);
  packed(*catalog.datasets.at("synthetic_digits")(source), folder);
  spec::dataset::Pack options;
  options.path = folder / "samples.pack";
  options.source = source;
  const auto open = [&] {
    return catalog.datasets.at("pack")(config::make_stage("dataset", "pack", options));
  };
  CHECK(open()->size() == 20);
  CHECK(catalog.facts.at("pack")(config::make_stage("dataset", "pack", options)).samples == 20);
  digits.seed = 1;
  options.source = config::make_stage("dataset", "synthetic_digits", digits);
  CHECK_THAT(failure_of(open),
             Contains("9: ") && Contains("samples.pack is stale: its samples differ from"));
}
