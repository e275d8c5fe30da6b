#include "data/formats/cache_file.hpp"
#include "data/pack/jpeg_files.hpp"
#include "data/pack/make_pack.hpp"
#include "data/pack/pack_format.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <fstream>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

void write_image(const fs::path& path, int seed) {
  fs::create_directories(path.parent_path());
  const auto file = jpeg_file({20, 30, 3}, seed, Scans::baseline);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
}

/// Creates two classes of images and packs them.
struct Packed {
  TempFolder folder;
  Catalog catalog = builtin_catalog();
  config::Stage source;
  spec::dataset::Pack options;

  explicit Packed(const std::string& out = "images.pack") {
    for (const char* name : {"cat/a.jpg", "cat/b.jpg", "dog/a.jpg"})
      write_image(root() / name, name[0] + name[4]);
    spec::dataset::ImageFolder images;
    images.root = root();
    source = config::make_stage("dataset", "image_folder", images);
    options.path = folder / out;
    PackOptions pack;
    pack.origin = record_origin(source);
    make_pack(*catalog.datasets.at("image_folder")(source), options.path, pack);
  }
  [[nodiscard]] fs::path root() const { return folder / "images"; }
  [[nodiscard]] config::Stage stage() const {
    return config::make_stage("dataset", "pack", options);
  }

  /// Returns the error of opening the pack, which must equal the error of reading its header; ""
  /// without an error.
  [[nodiscard]] std::string failure() const {
    const std::string opened = failure_of([&] { catalog.datasets.at("pack")(stage()); });
    CHECK(failure_of([&] { catalog.facts.at("pack")(stage()); }) == opened);
    return opened;
  }
};

}  // namespace

TEST_CASE("pack: the class names are those of the source") {
  const Packed packed;
  const std::vector<std::string> names{"cat", "dog"};
  CHECK(packed.catalog.facts.at("pack")(packed.stage()).class_names == names);
  CHECK(packed.catalog.datasets.at("pack")(packed.stage())->class_names() == names);
}

TEST_CASE("pack: a changed source is an error unless on_stale is ignore") {
  Packed packed;
  CHECK(packed.failure().empty());
  write_image(packed.root() / "dog/b.jpg", 7);
  CHECK_THAT(packed.failure(), StartsWith("9: ") && Contains("images.pack is stale: ") &&
                                   Contains("has changed") && Contains("'on_stale: ignore'"));
  packed.options.on_stale = spec::dataset::OnStale::ignore;
  CHECK(packed.failure().empty());
}

TEST_CASE("pack: a source file that was replaced is an error with its name") {
  const Packed packed;
  write_image(packed.root() / "dog/a.jpg", 9);
  CHECK_THAT(packed.failure(), Contains("dog/a.jpg' has changed since the pack was made"));
}

TEST_CASE("pack: a new file that is not a sample does not make the pack stale") {
  const Packed packed("images/images.pack");  // inside its source folder
  CHECK(packed.failure().empty());
  std::ofstream(packed.root() / "dog/notes.txt") << "no image";
  CHECK(packed.failure().empty());
}

TEST_CASE("pack: a missing or empty source does not make the pack stale") {
  const Packed packed;
  fs::rename(packed.root(), packed.folder / "moved");
  CHECK(packed.failure().empty());
  fs::create_directory(packed.root());
  CHECK(packed.failure().empty());
}

TEST_CASE("decode_notes: returns the encoded notes, and data of another length is an error") {
  PackNotes notes;
  notes.class_names = {"cat", "dog"};
  notes.skipped = {{"a.jpg", "it is damaged"}};
  notes.origin = {"mnist", {{"/data", 3, 4}}};
  const std::string bytes = encode(notes);
  const PackNotes again = decode_notes(bytes, "x.pack");
  CHECK(again.class_names == notes.class_names);
  CHECK(again.skipped[0].reason == "it is damaged");
  CHECK(again.origin.marks == notes.origin.marks);
  bool all_rejected = true;
  for (std::size_t length = 0; length < bytes.size(); ++length)
    all_rejected &= failure_of([&] { decode_notes(bytes.substr(0, length), "x.pack"); }) ==
                    "9: x.pack is damaged: its metadata is inconsistent";
  CHECK(all_rejected);
  CHECK(!failure_of([&] { decode_notes(bytes + "x", "x.pack"); }).empty());
}
