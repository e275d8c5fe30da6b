#include "study/init/starter.hpp"

#include "data/idx_files.hpp"
#include "data/text/tokenize.hpp"
#include "study/init/starters.hpp"

using namespace trainctl;
using namespace trainctl::study;
using namespace trainctl::study::testing;

namespace {

void write_mnist(const StarterFolder& folder) {
  fs::create_directories(folder / "mnist");
  data::testing::write_split(folder / "mnist", 40);
  data::testing::write_file(folder / "mnist/t10k-images-idx3-ubyte", data::testing::idx_images(20));
  data::testing::write_file(folder / "mnist/t10k-labels-idx1-ubyte", data::testing::idx_labels(20));
}

}  // namespace

TEST_CASE("init: an unknown kind names the closest one, or all") {
  CHECK(failure_of([] { (void)make_starter({"image-foldr"}); }) ==
        "2: unknown kind 'image-foldr'; did you mean 'image-folder'?");
  CHECK(failure_of([] { (void)make_starter({"speech"}); }) ==
        "2: unknown kind 'speech'; the kinds are: mnist, image-folder, tabular, text");
}

TEST_CASE("init: missing data names what is expected") {
  const StarterFolder folder;
  CHECK(failure_of([] { (void)make_starter({"tabular"}); }) ==
        "2: tabular needs DATA: a CSV or Parquet file whose columns have names\n"
        "hint: trainctl init tabular PATH");
  CHECK_THAT(folder.failure("text", "absent.txt"),
             StartsWith("9: ") && EndsWith("absent.txt does not exist or is not a text file"));
  folder.write("file.jpg", "x");
  CHECK_THAT(folder.failure("image-folder", "file.jpg"),
             EndsWith("is not a folder with one folder of images per class"));
  CHECK_THAT(failure_of([] {
               (void)make_starter({"mnist", "absent"});
             }),
             StartsWith("9: the folder absent does not exist") && Contains("scripts/fetch-data"));
  CHECK_THAT(folder.failure("text", "file.jpg", "y"), StartsWith("2: --target names a column"));
}

TEST_CASE("init: mnist writes an experiment with the path of the four files") {
  const StarterFolder folder;
  write_mnist(folder);
  const Starter starter = folder.make("mnist", "mnist");
  CHECK(fact(starter, "training") == "40 images");
  CHECK(fact(starter, "validation") == "20 images");
  CHECK(starter.commands.empty());
  CHECK_THAT(starter.yaml, Contains("\nname: mnist\n"));
  CHECK(folder.problems(starter).empty());
  fs::remove(folder / "mnist/t10k-labels-idx1-ubyte");
  CHECK_THAT(folder.failure("mnist", "mnist"), Contains("contains neither t10k-labels-idx1-ubyte"));
}

TEST_CASE("init: a text becomes tokens by one command, which the experiment contains") {
  const StarterFolder folder;
  std::string text;
  for (int i = 0; i < 5'000; ++i) text += static_cast<char>(1 + i * 7 % 255);
  folder.write("my book.txt", text);
  const Starter starter = folder.make("text", "my book.txt");
  CHECK(fact(starter, "training") == "4,500 tokens");
  CHECK(fact(starter, "validation") == "500 tokens");
  CHECK_THAT(starter.yaml, Contains("sequence_length: 32\n") && Contains("context: 32,"));
  REQUIRE(starter.commands.size() == 1);
  CHECK_THAT(folder.problems(starter), Contains("my book_train.bin"));
  CHECK_THAT(starter.commands[0], StartsWith("trainctl data tokenize --out ") &&
                                      Contains(" -- '"));  // the name may begin with '-'
  CHECK_THAT(starter.yaml, Contains("    # " + starter.commands[0] + "\n"));
  data::tokenize({.inputs = {folder / "my book.txt"},
                  .out = folder / "my book_train.bin",
                  .val_out = folder / "my book_val.bin"},
                 [](auto, auto) {});
  CHECK(folder.problems(starter).empty());
  CHECK(fs::file_size(folder / "my book_train.bin") == 9'000);
  CHECK(fs::file_size(folder / "my book_val.bin") == 1'000);
}

TEST_CASE("init: tokens that exist are replaced only with --force") {
  const StarterFolder folder;
  folder.write("book.txt", std::string(3'000, 'a'));
  folder.write("book_val.bin", "mine");
  CHECK_THAT(folder.failure("text", "book.txt"),
             StartsWith("2: ") && Contains("book_val.bin already exists\nhint: "));
  const fs::path file = folder / "config.yaml";
  const Starter starter = make_starter({"text", folder / "book.txt", file, "", true});
  CHECK_THAT(starter.commands.at(0), Contains(" --force -- "));
}

TEST_CASE("init: the experiment file never replaces the data") {
  const StarterFolder folder;
  folder.write("book.txt", std::string(3'000, 'a'));
  fs::create_symlink("book.txt", folder / "link.yaml");
  for (const char* name : {"book.txt", "link.yaml"})
    CHECK_THAT(failure_of([&] {
                 (void)make_starter({"text", folder / "book.txt", folder / name, "", true});
               }),
               StartsWith("2: ") && Contains("would replace the data\nhint: "));
}

TEST_CASE("init: a text that is short, empty or binary is refused") {
  const StarterFolder folder;
  folder.write("empty.txt", "");
  folder.write("short.txt", std::string(1'999, 'a'));
  std::string binary(3'001, 'a');
  binary.back() = '\0';
  folder.write("binary.txt", binary);
  CHECK_THAT(folder.failure("text", "empty.txt"), StartsWith("9: ") && Contains("has 0 bytes"));
  CHECK_THAT(folder.failure("text", "short.txt"), Contains("has 1,999 bytes, but a text"));
  CHECK_THAT(folder.failure("text", "binary.txt"), EndsWith("in UTF-8, but byte 3,000 is 0"));
}

TEST_CASE("init: paths are relative to the folder of the experiment file") {
  CHECK(path_value("data/a b.csv", "config.yaml") == "\"data/a b.csv\"");
  CHECK(path_value("/data/t.csv", "some/config.yaml") == "/data/t.csv");
  CHECK(path_value("data/t.csv", "some/config.yaml") == "../data/t.csv");
  CHECK(path_value("some/t.csv", "./some/config.yaml") == "t.csv");
}

TEST_CASE("init: paths do not depend on the target of a linked folder") {
  const StarterFolder folder;
  fs::create_directories(folder / "real/deep");
  fs::create_directory_symlink(folder / "real/deep", folder / "link");
  const fs::path here = (folder / "x").lexically_relative(fs::current_path()).parent_path();
  CHECK(path_value(here / "t.csv", here / "link/config.yaml") == "../t.csv");
}

TEST_CASE("init: names are written as the reader of the experiment reads them") {
  CHECK(yaml_value("${a} $b") == "\"$${a} $b\"");
  CHECK(failure_of([] { (void)yaml_value("caf\xE9"); }) ==
        "9: the name 'caf\\xe9' must be valid UTF-8 without '${secret:'");
  CHECK_THAT(failure_of([] { (void)yaml_value("a${secret:B}"); }), StartsWith("9: the name 'a$"));
}

TEST_CASE("init: a batch has at most a tenth of the samples") {
  CHECK(starter_loader(1'000, 64, {}) == "loader: { batch_size: 64 }\n");
  CHECK(starter_loader(79, 64, {}) == "loader: { batch_size: 4 }\n");
  CHECK(starter_loader(8, 64, {}) == "loader: { batch_size: 2 }\n");
  CHECK(starter_loader(1'000, 64, {10, 29}) == "loader: { batch_size: 64 }\n");
  CHECK_THAT(starter_loader(1'000, 64, {10, 35}),
             Contains("3.5 times") && Contains("sampler: class_balanced"));
}
