#include "data/image/codec/png.hpp"
#include "data/sources.hpp"
#include "data/varied.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"

#include <sys/stat.h>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;
namespace fs = std::filesystem;

namespace {

spec::dataset::ImageFolder folder_at(const fs::path& root) {
  spec::dataset::ImageFolder options;
  options.root = root;
  return options;
}

void write_images(const fs::path& root) {
  for (const char* name : {"dog/b.JPG", "dog/a.png", "cat/x/y/2.jpeg", "cat/x-1/3.webp",
                           "cat/1.bmp", "cat/notes.txt", "Zebra/z.tiff", "stray.jpg"}) {
    put_text(root / name, std::string("bytes of ") + name);
  }
  settle(root);
}

std::string failure(const spec::dataset::ImageFolder& options) {
  const std::string found = failure_of([&] { (void)build("image_folder", options); });
  const std::string quick = failure_of([&] { (void)facts("image_folder", options); });
  CHECK(found == quick);
  return found;
}

}  // namespace

TEST_CASE("image_folder: classes and order are those of torchvision's ImageFolder") {
  const CacheHome cache;
  const TempFolder folder;
  write_images(folder.path());
  const auto dataset = build("image_folder", folder_at(folder.path()));
  CHECK(dataset->class_names() == std::vector<std::string>{"Zebra", "cat", "dog"});
  CHECK(dataset->layout() == Layout{{"image", Dtype::u8, {0, 0, 3}}, {"label", Dtype::i64, {}}});
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{0, 1, 1, 1, 2, 2});
  std::vector<std::string> found;
  for (std::int64_t i = 0; i < dataset->size(); ++i) found.push_back(stored(*dataset, i).substr(9));
  // Files are sorted by the path of their folder, and '-' sorts before '/'.
  CHECK(found == std::vector<std::string>{"Zebra/z.tiff", "cat/1.bmp", "cat/x-1/3.webp",
                                          "cat/x/y/2.jpeg", "dog/a.png", "dog/b.JPG"});
  CHECK(dataset->images()->name(0) == (folder / "Zebra/z.tiff").string());
}

TEST_CASE("image_folder: the manifest is cached, and recreated when a folder changes") {
  const CacheHome cache;
  const TempFolder folder;
  write_images(folder.path());
  const auto first = build("image_folder", folder_at(folder.path()));
  REQUIRE(cache.files().size() == 1);
  const auto written = fs::last_write_time(cache.files()[0]);
  CHECK(build("image_folder", folder_at(folder.path()))->fingerprint() == first->fingerprint());
  CHECK(facts("image_folder", folder_at(folder.path())).class_names == first->class_names());
  CHECK(fs::last_write_time(cache.files()[0]) == written);

  put_text(folder / "cat/new.jpg", "new");
  CHECK(facts("image_folder", folder_at(folder.path())).samples == 7);
  const auto second = build("image_folder", folder_at(folder.path()));
  CHECK(second->size() == 7);
  CHECK(second->fingerprint() != first->fingerprint());
}

TEST_CASE("image_folder: an added file is found even if the time of its folder is restored") {
  const CacheHome cache;
  const TempFolder folder;
  write_images(folder.path());
  (void)build("image_folder", folder_at(folder.path()));
  const auto before = fs::last_write_time(folder / "cat");
  put_text(folder / "cat/new.jpg", "new");
  fs::last_write_time(folder / "cat", before);
  CHECK(build("image_folder", folder_at(folder.path()))->size() == 7);
}

TEST_CASE("image_folder: the manifest of a folder that has just changed is not cached") {
  const CacheHome cache;
  const TempFolder folder;
  put_text(folder / "cat/1.jpg", "one");
  CHECK(build("image_folder", folder_at(folder.path()))->size() == 1);
  CHECK(cache.files().empty());
}

TEST_CASE("image_folder: a damaged manifest is recreated") {
  const CacheHome cache;
  const TempFolder folder;
  write_images(folder.path());
  const std::string expected = build("image_folder", folder_at(folder.path()))->fingerprint();
  const std::string good = get_text(cache.files()[0]);
  for (std::size_t i = 0; i < good.size(); i += 3) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x41);
    put_text(cache.files()[0], i % 2 == 0 ? bad : good.substr(0, i));
    REQUIRE(build("image_folder", folder_at(folder.path()))->fingerprint() == expected);
  }
}

TEST_CASE("image_folder: without a writable cache folder the images are read all the same") {
  const TempFolder folder;
  write_images(folder.path());
  put_text(folder / "file", "in the way");
  const char* before = std::getenv("XDG_CACHE_HOME");
  const std::string old = before == nullptr ? "" : before;
  ::setenv("XDG_CACHE_HOME", (folder / "file").c_str(), 1);
  CHECK(build("image_folder", folder_at(folder.path()))->size() == 6);
  if (old.empty())
    ::unsetenv("XDG_CACHE_HOME");
  else
    ::setenv("XDG_CACHE_HOME", old.c_str(), 1);
}

TEST_CASE(
    "image_folder: a file that changed after the manifest is listed again at the next start") {
  const CacheHome cache;
  const TempFolder folder;
  write_images(folder.path());
  const std::string before = build("image_folder", folder_at(folder.path()))->fingerprint();
  const auto hour = std::chrono::hours(1);
  fs::last_write_time(folder / "cat/1.bmp", fs::last_write_time(folder / "cat/1.bmp") - hour);
  const auto dataset = build("image_folder", folder_at(folder.path()));
  CHECK(dataset->fingerprint() != before);
  CHECK(stored(*dataset, 1) == "bytes of cat/1.bmp");
  CHECK(build("image_folder", folder_at(folder.path()))->fingerprint() == dataset->fingerprint());
}

TEST_CASE(
    "image_folder: a file that changes during a run is an error, even if samples are skipped") {
  const CacheHome cache;
  const TempFolder folder;
  std::vector<std::uint8_t> pixels(12 * 10 * 3, 7);
  for (const char* name : {"cat/1.png", "cat/2.png", "dog/3.png"}) {
    fs::create_directories((folder / name).parent_path());
    write_png(folder / name, ImageView(pixels.data(), {12, 10, 3}));
  }
  settle(folder.path());
  for (const int ahead : {0, 1}) {
    const auto dataset = build("image_folder", folder_at(folder.path()));
    fs::last_write_time(folder / "cat/2.png", fs::file_time_type::clock::now());
    LoaderOptions options;
    options.batch_size = 3;
    options.on_error = OnError::skip;
    options.max_skipped = 3;
    options.read_ahead = ahead;
    Loader loader({dataset, {std::make_shared<Corner>(4)}, {}, {}}, options);
    loader.start_epoch(0);
    CHECK_THAT(failure_of([&] { loader.next(); }),
               StartsWith("9: ") && Contains("has changed since it was listed"));
  }
}

TEST_CASE(
    "image_folder: a file that changes during a run is an error, and the next start reads it") {
  const CacheHome cache;
  const TempFolder folder;
  write_images(folder.path());
  const auto dataset = build("image_folder", folder_at(folder.path()));
  put_text(folder / "cat/1.bmp", "longer than it was before");
  const std::string failed = failure_of([&] { (void)stored(*dataset, 1); });
  CHECK_THAT(failed, StartsWith("9: ") &&
                         Contains("has changed since it was listed (from 18 to 25 bytes)"));
  CHECK(stored(*build("image_folder", folder_at(folder.path())), 1) == "longer than it was before");
}

TEST_CASE("image_folder: an empty or deleted file is an error") {
  const CacheHome cache;
  const TempFolder folder;
  write_images(folder.path());
  put_text(folder / "dog/a.png", "");
  const auto dataset = build("image_folder", folder_at(folder.path()));
  CHECK_THAT(failure_of([&] { (void)stored(*dataset, 4); }),
             StartsWith("9: the image file is empty"));
  fs::remove(folder / "dog/b.JPG");
  CHECK_THAT(failure_of([&] { (void)stored(*dataset, 5); }),
             StartsWith("9: cannot read ") && Contains("dog/b.JPG: No such"));
}

TEST_CASE(
    "image_folder: missing classes, missing images and special files are errors with advice") {
  const CacheHome cache;
  const TempFolder folder;
  CHECK_THAT(failure(folder_at(folder / "nowhere")),
             StartsWith("9: the folder ") && Contains("nowhere does not exist"));
  CHECK_THAT(failure(folder_at(folder.path())), Contains("must contain class folders, as in "));
  put_text(folder / "cat/1.jpg", "one");
  put_text(folder / "dog/readme.txt", "none");
  CHECK_THAT(failure(folder_at(folder.path())),
             Contains("dog contains no images") && Contains("allow_empty: true"));
  auto options = folder_at(folder.path());
  options.allow_empty = true;
  CHECK(build("image_folder", options)->classes() == 2);
  fs::remove(folder / "cat/1.jpg");
  CHECK_THAT(failure(options), Contains("contains no images in its 2 class folders"));
  REQUIRE(::mkfifo((folder / "cat/2.jpg").c_str(), 0600) == 0);
  CHECK_THAT(failure(options), Contains("2.jpg is not a regular file"));
}

TEST_CASE("image_folder: a symbolic link is an error, or followed with follow_links") {
  const CacheHome cache;
  const TempFolder folder;
  const TempFolder elsewhere;
  put_text(elsewhere / "in/2.jpg", "two");
  put_text(folder / "cat/1.jpg", "one");
  fs::create_symlink(elsewhere / "in/2.jpg", folder / "cat/2.jpg");
  CHECK_THAT(failure(folder_at(folder.path())),
             Contains("2.jpg is a symbolic link\nhint: to follow it, set follow_links: true"));
  auto options = folder_at(folder.path());
  options.follow_links = true;
  CHECK(stored(*build("image_folder", options), 1) == "two");
  fs::remove(folder / "cat/2.jpg");
  fs::create_directory_symlink(elsewhere / "in", folder / "dog");
  CHECK_THAT(failure(folder_at(folder.path())), Contains("dog is a symbolic link"));
  CHECK(build("image_folder", options)->class_names() == std::vector<std::string>{"cat", "dog"});
  fs::create_directory_symlink(folder / "cat", folder / "cat/again");
  CHECK_THAT(failure(options), Contains("cat/again is a link to a folder that contains it"));
  fs::remove(folder / "cat/again");
  fs::create_symlink("nowhere.jpg", folder / "cat/lost.jpg");
  CHECK_THAT(failure(options), Contains("is a broken link"));
}

TEST_CASE("image_folder: a link that replaces a listed file is not followed") {
  const CacheHome cache;
  const TempFolder folder;
  const TempFolder elsewhere;
  put_text(elsewhere / "secret", "bytes of cat/1.bmp");
  write_images(folder.path());
  const auto dataset = build("image_folder", folder_at(folder.path()));
  fs::remove(folder / "cat/1.bmp");
  fs::create_symlink(elsewhere / "secret", folder / "cat/1.bmp");
  CHECK_THAT(failure_of([&] { (void)stored(*dataset, 1); }), Contains("symbolic link"));
}

TEST_CASE("image_folder: names may contain control bytes, which are shown escaped") {
  const CacheHome cache;
  const TempFolder folder;
  put_text(folder / "a\nb/\x1b[31m.jpg", "odd");
  settle(folder.path());
  for (int i = 0; i < 2; ++i) {
    const auto dataset = build("image_folder", folder_at(folder.path()));
    CHECK(stored(*dataset, 0) == "odd");
    CHECK(dataset->images()->name(0).find('\x1b') == std::string::npos);
    CHECK(dataset->images()->name(0).find('\n') == std::string::npos);
  }
}

TEST_CASE("image_folder: 5000 files have the same fingerprint with and without the manifest") {
  const CacheHome cache;
  const TempFolder folder;
  for (int c = 0; c < 20; ++c) {
    fs::create_directory(folder / ("class" + std::to_string(c)));
    for (int i = 0; i < 250; ++i) {
      std::ofstream(folder / ("class" + std::to_string(c) + "/" + std::to_string(i) + ".jpg")) << i;
    }
  }
  settle(folder.path());
  const std::string cold = build("image_folder", folder_at(folder.path()))->fingerprint();
  REQUIRE(cache.files().size() == 1);
  const auto warm = build("image_folder", folder_at(folder.path()));
  CHECK(warm->fingerprint() == cold);
  CHECK(warm->size() == 5000);
}
