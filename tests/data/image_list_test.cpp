#include "data/sources.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"
#include "support/growth.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;
namespace fs = std::filesystem;

namespace {

class Listed {
 public:
  Listed() {
    put_text(folder_ / "a/1.jpg", "one");
    put_text(folder_ / "a/2.jpg", "two");
    put_text(folder_ / "3, \"x\".png", "three");
  }
  spec::dataset::ImageList with(const std::string& text, const char* name = "list.csv") {
    put_text(folder_ / name, text);
    settle(folder_.path());
    spec::dataset::ImageList options;
    options.path = folder_ / name;
    return options;
  }
  std::string failure(const std::string& text) {
    return failure_of([&] { (void)build("image_list", with(text)); });
  }
  const TempFolder& folder() const { return folder_; }

 private:
  CacheHome cache_;
  TempFolder folder_;
};

}  // namespace

TEST_CASE("image_list: each line has a path and the name of a class") {
  Listed listed;
  const auto dataset =
      build("image_list",
            listed.with("path,label\na/2.jpg,owl\n\"3, \"\"x\"\".png\",crow\r\na/1.jpg,owl\n"));
  CHECK(dataset->class_names() == std::vector<std::string>{"crow", "owl"});
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{1, 0, 1});
  CHECK(stored(*dataset, 1) == "three");
  CHECK(stored(*dataset, 2) == "one");
}

TEST_CASE("image_list: a single number is a class, and several numbers are targets") {
  Listed listed;
  const auto classes = build("image_list", listed.with("a/1.jpg\t0\na/2.jpg\t7\n", "list.tsv"));
  CHECK(classes->classes() == 8);
  CHECK(labels_of(*classes) == std::vector<std::int64_t>{0, 7});
  const auto targets = build("image_list", listed.with("a/1.jpg,0.5,1\na/2.jpg,-2,1e3\n"));
  CHECK(targets->layout()[1] == Field{"label", Dtype::f32, {2}});
  CHECK(targets->classes() == 0);
  std::vector<float> rows(2);
  const std::int64_t second = 1;
  const std::span<std::byte> out[] = {{}, std::as_writable_bytes(std::span(rows))};
  targets->fill({&second, 1}, out);
  CHECK(rows == std::vector<float>{-2, 1000});
}

TEST_CASE("image_list: 'classes' fixes the order, and an error names any other label") {
  Listed listed;
  auto options = listed.with("a/1.jpg,owl\n");
  options.classes = {"owl", "crow"};
  const auto dataset = build("image_list", options);
  CHECK(dataset->classes() == 2);
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{0});
  options = listed.with("a/1.jpg,owl\na/2.jpg,emu\n");
  options.classes = {"owl", "crow"};
  CHECK_THAT(failure_of([&] { (void)build("image_list", options); }),
             Contains("list.csv:2: the label 'emu' is not one of the 2 classes"));
}

TEST_CASE("image_list: the images may be in another folder, and a changed list is read again") {
  Listed listed;
  auto options = listed.with("1.jpg,x\n");
  options.root = listed.folder() / "a";
  CHECK(stored(*build("image_list", options), 0) == "one");
  put_text(options.path, "2.jpg,x\n");
  CHECK(stored(*build("image_list", options), 0) == "two");
}

TEST_CASE("image_list: an invalid list is an error with line and column") {
  Listed listed;
  CHECK_THAT(listed.failure("path,label\n"),
             Contains("lists no images: each image needs a line 'path,label'"));
  CHECK_THAT(listed.failure("a/1.jpg\n"), Contains("list.csv:1:1: the line must be 'path,label'"));
  CHECK_THAT(
      listed.failure("a/1.jpg,1\na/2.jpg,1,2\n"),
      Contains("list.csv:2:1: the line has 3 fields, but the line of the first image has 2"));
  CHECK_THAT(listed.failure("a/1.jpg,1,2\na/2.jpg,1,two\n"),
             Contains("list.csv:2:11: 'two' is not a number"));
  CHECK_THAT(listed.failure("a/1.jpg,1,2\na/2.jpg,1,nan\n"), Contains("'nan' is not a number"));
  CHECK_THAT(listed.failure("a/1.jpg,1\na/2.exe,1\n"),
             Contains("list.csv:2:1: 'a/2.exe' must end in .jpg"));
  CHECK_THAT(listed.failure("a/1.jpg,\n"), Contains("list.csv:1: the label is empty"));
  CHECK_THAT(listed.failure("a/9.jpg,1\n"), Contains("a/9.jpg: No such file"));
  auto options = listed.with("a/1.jpg,1\n");
  options.rows = 2;
  CHECK_THAT(failure_of([&] { (void)build("image_list", options); }),
             Contains("lists 1 image, but 'rows' is 2"));
}

TEST_CASE("image_list: the first line is a header only if it cannot be a sample") {
  Listed listed;
  for (const char* head : {"path,label\n", "image,class name\n", "Path,Label\r\n"})
    CHECK(build("image_list", listed.with(std::string(head) + "a/1.jpg,owl\n"))->size() == 1);
  const std::string rows = "a/1.jpg,0\na/2.jpg,1\n";
  CHECK_THAT(listed.failure("animal/a.gif,0\n" + rows),
             Contains("list.csv:1:1: 'animal/a.gif' must end in .jpg"));
  for (const char* sample : {"a.gif,owl\n", "a\\b,owl\n", "a/b,owl\n", "a,1\n"})
    CHECK_THAT(listed.failure(sample + rows), Contains("list.csv:1:1: "));
  CHECK(build("image_list", listed.with(rows, "LIST.CSV"))->size() == 2);
}

TEST_CASE("image_list: a missing file is an error with its line before any image is read") {
  Listed listed;
  for (const std::string row : {"a/1.jpg,0\na/9.jpg,1\n", "path,label\na/9.jpg,1\n"}) {
    const auto options = listed.with(row);
    const std::string failure = failure_of([&] { (void)facts("image_list", options); });
    CHECK_THAT(failure, Contains("list.csv:2: cannot read ") && Contains("a/9.jpg: No such file"));
    CHECK(failure_of([&] { (void)build("image_list", options); }) == failure);
  }
}

TEST_CASE("image_list: a file that changed after the last start is listed again") {
  Listed listed;
  const auto options = listed.with("a/1.jpg,0\na/2.jpg,1\n");
  (void)build("image_list", options);
  put_text(listed.folder() / "a/2.jpg", "longer than it was");
  CHECK(stored(*build("image_list", options), 1) == "longer than it was");
}

TEST_CASE("image_list: a path outside of the root is an error without follow_links") {
  Listed listed;
  const TempFolder outside;
  put_text(outside / "s.jpg", "secret");
  const std::string up = "a/../../" + outside.path().filename().string() + "/s.jpg";
  CHECK_THAT(listed.failure((outside / "s.jpg").string() + ",1\n"),
             Contains("is outside of the folder"));
  CHECK_THAT(listed.failure(up + ",1\n"), Contains("is outside of the folder"));
  fs::create_directory_symlink(outside.path(), listed.folder() / "door");
  CHECK_THAT(listed.failure("door/s.jpg,1\n"), StartsWith("9: ") && Contains("symbolic link"));
  auto options = listed.with("door/s.jpg,1\n" + up + ",1\n");
  options.follow_links = true;
  CHECK(stored(*build("image_list", options), 1) == "secret");
}

TEST_CASE("image_list: the last line needs no line break") {
  Listed listed;
  const auto dataset = build("image_list", listed.with("path,label\na/2.jpg,owl\na/1.jpg,crow"));
  CHECK(dataset->class_names() == std::vector<std::string>{"crow", "owl"});
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{1, 0});
}

TEST_CASE("image_list: every truncation is an error unless the last line has a path and a label") {
  Listed listed;
  const std::string text = "path,label\r\na/1.jpg,owl\r\n\"a/2.jpg\",crow\r\n";
  for (std::size_t length = 0; length < text.size(); ++length) {
    const std::string part = text.substr(0, length);
    const std::string failure = listed.failure(part);
    const std::string last = part.substr(part.rfind('\n') + 1);
    const std::size_t comma = last.find(',');
    const bool has_samples = part.size() > 12;
    const bool complete = last.empty() || (comma != std::string::npos && comma + 1 < last.size());
    const bool sound = has_samples && complete && !part.ends_with("\r");
    if (failure.starts_with("9: ") == sound) FAIL("at length " << length << ": " << failure);
    if (!sound && failure.find("list.csv") == std::string::npos) FAIL(failure);
  }
}

TEST_CASE("image_list: reading is linear in the number of lines and of targets") {
  Listed listed;
  const auto lines = [&](std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += fmt::format("a/1.jpg,owl{}\n", i % 1000);
    return [options = listed.with(text)] { (void)facts("image_list", options); };
  };
  CHECK(growth_per_doubling(lines, 1'000) <= kMostPerDoubling);
  const auto targets = [&](std::size_t count) {
    std::string text = "a/1.jpg";
    for (std::size_t i = 0; i < count; ++i) text += ",0.5";
    return [options = listed.with(text + "\n")] { (void)facts("image_list", options); };
  };
  CHECK(growth_per_doubling(targets, 2'000) <= kMostPerDoubling);
}
