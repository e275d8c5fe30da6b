
#include "data/core/registry.hpp"
#include "data/dataset/pack.hpp"
#include "data/pack/jpeg_files.hpp"
#include "data/pack/make_pack.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"
#include "support/file_limit.hpp"
#include "support/golden.hpp"
#include "support/temp_folder.hpp"

#include <fstream>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

/// Packs all samples except the last `left`, like an interrupted run.
void begin_pack(const Dataset& source, const fs::path& path, std::int64_t left,
                const PackOptions& options = {}) {
  failure_of([&] {
    make_pack(source, path, options, {{}, [&](std::int64_t done, std::int64_t total) {
                                        ENSURE(interrupted, done < total - left, "stop");
                                      }});
  });
}

void overwrite(const fs::path& path, std::uint64_t at, std::string_view bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(at));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

PackOptions skipping() {
  PackOptions options;
  options.on_error = OnError::skip;
  options.max_skipped = 3;
  return options;
}

}  // namespace

TEST_CASE("PackWriter: an image or label that the format cannot store is an error") {
  const TempFolder folder;
  PackHeader head;
  head.channels = 3;
  head.classes = 2;
  head.samples = 1;
  const auto append_error = [&](const ImageShape& shape, std::int64_t label) {
    PackWriter writer(folder / "x.pack", head);
    PackedImage image;
    image.bytes.resize(shape.bytes());
    image.shape = shape;
    image.format = PackFormat::raw;
    image.name = "long.png";
    image.label = label;
    return failure_of([&] { writer.append(image); });
  };
  CHECK_THAT(
      append_error({1'100'000, 1, 3}, 0),
      StartsWith(
          "9: long.png: the image has 1100000x1 pixels and 3 channels, but an image of this pack"));
  CHECK_THAT(append_error({1, 1'100'000, 3}, 0), StartsWith("9: long.png: "));
  CHECK_THAT(append_error({1, 1, 4}, 0), StartsWith("9: long.png: "));
  CHECK(append_error({1, 1, 3}, 2) ==
        "9: long.png: the label must be from 0 to 1 (2 classes), got 2");
  CHECK(append_error({1, 1, 3}, 1).empty());
}

TEST_CASE("make_pack: images with more than 4 channels are an error before anything is written") {
  const TempFolder folder;
  spec::dataset::SyntheticImages options;
  options.channels = 5;
  const auto source = builtin_catalog().datasets.at("synthetic_images")(
      config::make_stage("dataset", "synthetic_images", options));
  CHECK(failure_of([&] { make_pack(*source, folder / "x.pack", {}); }) ==
        "2: a pack contains images of at most 4 channels, but the images of this data set have 5");
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("make_pack: the journal does not list images that could not be written") {
  const TempFolder folder;
  const VariedDataset source(60);
  const fs::path path = folder / "samples.pack";
  {
    const FileLimit limit(5000);
    CHECK_THAT(failure_of([&] { make_pack(source, path, {}); }), StartsWith("11: cannot write"));
  }
  CHECK(fs::file_size(path.string() + ".journal") == 24);
  CHECK(make_pack(source, path, {}).found == 0);
}

TEST_CASE("make_pack: damaged bytes of a partial file are written again") {
  const TempFolder folder;
  const VariedDataset source(30);
  make_pack(source, folder / "whole.pack", {});
  const std::string expected = golden::read(folder / "whole.pack");
  const fs::path path = folder / "samples.pack";
  for (const std::uint64_t at : {kPackPage, kPackPage + 1500}) {
    fs::remove(path);
    begin_pack(source, path, 4);
    overwrite(path.string() + ".partial", at, "oops");
    std::int64_t checked = 0;
    const PackReport report =
        make_pack(source, path, {}, {[&](std::int64_t done, std::int64_t) { checked = done; }, {}});
    CHECK(report.damaged > 0);
    CHECK(report.found + report.damaged == 26);
    CHECK(checked == report.found);
    CHECK((golden::read(path) == expected));
  }
}

TEST_CASE("make_pack: a crash while resuming keeps all valid records of the journal") {
  const TempFolder folder;
  const VariedDataset source(30);
  const fs::path path = folder / "samples.pack";
  begin_pack(source, path, 4);
  const std::string journal = golden::read(path.string() + ".journal");
  std::ofstream(path.string() + ".journal", std::ios::app) << "half a record";
  // A crash during the verification must not lose anything.
  failure_of([&] {
    make_pack(source, path, {},
              {[](std::int64_t, std::int64_t) { ENSURE(interrupted, false, "crash"); }, {}});
  });
  CHECK((golden::read(path.string() + ".journal") == journal + "half a record"));
  CHECK(make_pack(source, path, {}).found == 26);
}

TEST_CASE("open_locked: a file that is renamed before it is locked is created again") {
  const TempFolder folder;
  const fs::path path = folder / "x.partial";
  int calls = 0;
  const Fd fd = open_locked(path, [&] {
    if (++calls == 1) fs::rename(path, folder / "x");
  });
  CHECK(calls == 2);
  write_all(fd.get(), "mine", "x.partial");
  CHECK(fs::file_size(folder / "x") == 0);
  CHECK(fs::file_size(path) == 4);
  CHECK_THAT(failure_of([&] { open_locked(path); }), StartsWith("11: another process is writing"));
}

TEST_CASE("make_pack: damaged samples and their labels are skipped and reported") {
  const TempFolder folder;
  VariedDataset source(30);
  source.bad = {0, 4, 29};
  const fs::path path = folder / "samples.pack";
  const PackReport report = make_pack(source, path, skipping());
  CHECK(report.samples == 27);
  REQUIRE(report.skipped.size() == 3);
  CHECK(report.skipped[1].name == "picture 4");
  CHECK(report.skipped[1].reason == "the image is damaged");
  const PackDataset pack(path);
  CHECK(pack.size() == 27);
  CHECK(pack.name(0) == "picture 1");
  CHECK(pack.name(3) == "picture 5");
  std::vector<std::int64_t> expected;
  for (std::int64_t i = 0; i < 30; ++i)
    if (!source.bad.contains(i)) expected.push_back(i % 3);
  CHECK(read_labels(pack) == expected);
  const std::string bytes = golden::read(path);
  CHECK(make_pack(source, path, skipping()).skipped.size() == 3);
  CHECK_THAT(failure_of([&] { make_pack(source, path, {}); }),
             StartsWith("2: ") && Contains("is incomplete: 3 samples could not be read"));
  for (const std::int64_t left : {29, 26, 20, 1}) {
    fs::remove(path);
    begin_pack(source, path, left, skipping());
    CHECK(make_pack(source, path, skipping()).skipped.size() == 3);
    CHECK((golden::read(path) == bytes));
  }
}

TEST_CASE("make_pack: more damaged samples than max_skipped are an error, also in two runs") {
  const TempFolder folder;
  VariedDataset source(30);
  source.bad = {0, 4, 10, 29};
  const fs::path path = folder / "samples.pack";
  CHECK_THAT(failure_of([&] { make_pack(source, path, skipping()); }),
             StartsWith("9: picture 29: the image is damaged (dataset.max_skipped allows only 3"));
  CHECK_THAT(failure_of([&] { make_pack(source, path, skipping()); }),
             StartsWith("9: picture 29: the image is damaged (dataset.max_skipped allows only 3"));
  CHECK_THAT(failure_of([&] { make_pack(source, path, {}); }),
             StartsWith("9: the interrupted 'data pack' skipped a sample that could not be read, "
                        "picture 0: the image is damaged"));
}

TEST_CASE("make_pack: undecodable images can be skipped in mode keep too") {
  const TempFolder folder;
  auto damaged = jpeg_file({50, 20, 3}, 2, Scans::baseline);
  damaged.resize(damaged.size() / 2);
  const FileDataset source({jpeg_file({30, 40, 3}, 1, Scans::baseline), damaged});
  CHECK(make_pack(source, folder / "all.pack", {}).samples == 2);
  CHECK(make_pack(source, folder / "sound.pack", skipping()).samples == 1);
}
