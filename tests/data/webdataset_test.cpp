#include "data/dataset/webdataset.hpp"

#include "data/sources.hpp"
#include "data/tar_files.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;
namespace fs = std::filesystem;

namespace {

class Shards {
 public:
  spec::dataset::Webdataset with(const std::vector<std::string>& shards) {
    spec::dataset::Webdataset options;
    for (std::size_t i = 0; i < shards.size(); ++i)
      put_text(folder_ / ("s-" + std::to_string(i) + ".tar"), shards[i] + tar_end());
    settle(folder_.path());
    options.shards = {folder_ / ("s-{0.." + std::to_string(shards.size() - 1) + "}.tar")};
    return options;
  }
  std::string failure(const std::string& shard) {
    return failure_of([&] { (void)build("webdataset", with({shard})); });
  }
  const CacheHome& cache() const { return cache_; }
  const TempFolder& folder() const { return folder_; }

 private:
  CacheHome cache_;
  TempFolder folder_;
};

std::string sample(const std::string& key, const std::string& image, const std::string& label) {
  return tar_member(key + ".jpg", image) + tar_member(key + ".cls", label);
}

}  // namespace

TEST_CASE("webdataset: samples have the order of the shards and are not extracted to files") {
  Shards shards;
  const auto options =
      shards.with({sample("a/0", "zero", "2") + tar_member("a/0.txt", "seen") +
                       tar_member("readme", "not a sample") + tar_member("__meta__.json", "{}") +
                       tar_member(".hidden.jpg", "neither"),
                   tar_member("1.CLS", "0\n") + tar_member("1.PNG", "one")});
  CHECK(facts("webdataset", options).samples == 2);
  const auto dataset = build("webdataset", options);
  CHECK(dataset->classes() == 3);
  CHECK(labels_of(*dataset) == std::vector<std::int64_t>{2, 0});
  CHECK(stored(*dataset, 0) == "zero");
  CHECK(stored(*dataset, 1) == "one");
  CHECK(dataset->images()->name(1) == (shards.folder() / "s-1.tar").string() + ":1.PNG");
  CHECK_FALSE(fs::exists(shards.folder() / "a"));
}

TEST_CASE("webdataset: labels come from text or a JSON key, as names or numbers") {
  Shards shards;
  auto options =
      shards.with({tar_member("0.jpg", "x") + tar_member("0.json", R"({"kind": "owl", "n": 4})") +
                   tar_member("1.jpg", "y") + tar_member("1.json", R"({"kind": "crow", "n": 1})")});
  options.label = "json";
  options.label_key = "kind";
  CHECK(build("webdataset", options)->class_names() == std::vector<std::string>{"crow", "owl"});
  options.label_key = "n";
  CHECK(labels_of(*build("webdataset", options)) == std::vector<std::int64_t>{4, 1});
  options.label_key = "label";
  CHECK_THAT(
      failure_of([&] { (void)build("webdataset", options); }),
      Contains("sample '0' has a .json at byte 1536 without 'label'\nhint: set 'label_key'"));
  options = shards.with({tar_member("0.left.jpg", "l") + tar_member("0.right.jpg", "r") +
                         tar_member("0.txt", " owl \n")});
  options.label = "txt";
  options.image = {"right.jpg"};
  const auto named = build("webdataset", options);
  CHECK(stored(*named, 0) == "r");
  CHECK(named->class_names() == std::vector<std::string>{"owl"});
}

TEST_CASE("webdataset: the index of a shard is cached, and recreated when the shard changes") {
  Shards shards;
  const auto options = shards.with({sample("0", "zero", "0"), sample("1", "one", "1")});
  const std::string first = build("webdataset", options)->fingerprint();
  REQUIRE(shards.cache().files().size() == 2);
  CHECK(build("webdataset", options)->fingerprint() == first);
  put_text(shards.folder() / "s-1.tar", sample("7", "seven", "1") + tar_end());
  const auto dataset = build("webdataset", options);
  CHECK(stored(*dataset, 1) == "seven");
  CHECK(dataset->fingerprint() != first);
  for (const fs::path& file : shards.cache().files()) {
    const std::string good = get_text(file);
    for (std::size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 0x10);
      put_text(file, bad);
      REQUIRE(stored(*build("webdataset", options), 0) == "zero");
    }
  }
}

TEST_CASE("webdataset: a shard that changes during a run is an error") {
  Shards shards;
  const auto dataset = build("webdataset", shards.with({sample("0", "zero", "0")}));
  put_text(shards.folder() / "s-0.tar", sample("0", "one", "0"));
  CHECK_THAT(failure_of([&] { (void)stored(*dataset, 0); }),
             StartsWith("9: the file has changed since it was listed"));
}

TEST_CASE("webdataset: a sample with no image or label, or with two, is an error with its name") {
  Shards shards;
  CHECK_THAT(shards.failure(tar_member("a/0.jpg", "x")),
             Contains("s-0.tar: sample 'a/0' has an image, but no label (.cls)"));
  CHECK_THAT(shards.failure(tar_member("0.cls", "1") + sample("1", "x", "1")),
             Contains("sample '0' has a label, but no image"));
  CHECK_THAT(shards.failure(tar_member("0.jpg", "x") + tar_member("0.png", "y")),
             Contains("sample '0' has two images"));
  CHECK_THAT(shards.failure(sample("0", "x", "1") + tar_member("0.cls", "2")),
             Contains("sample '0' has two labels"));
  CHECK_THAT(shards.failure(sample("0", "x", " \n")),
             Contains("sample '0' has an empty label at byte 1536"));
  CHECK_THAT(shards.failure(tar_member("readme.md", "?")),
             Contains("contains no samples: no file in the archive ends in .jpg, .jpeg"));
  auto options = shards.with({sample("0", "x", "1")});
  options.shards = {"s.tar.gz"};
  CHECK_THAT(failure_of([&] { (void)build("webdataset", options); }),
             Contains("unpack it with gunzip"));
  options.shards = {shards.folder() / "nowhere.tar"};
  CHECK_THAT(failure_of([&] { (void)facts("webdataset", options); }),
             Contains("nowhere.tar: No such file"));
}

TEST_CASE("webdataset: every truncation of a shard is an error") {
  Shards shards;
  const std::string whole = sample("0", std::string(600, 'x'), "1") + tar_end();
  auto options = shards.with({sample("0", "x", "1")});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    put_text(shards.folder() / "s-0.tar", whole.substr(0, length));
    const std::string failure = failure_of([&] { (void)build("webdataset", options); });
    if (!failure.starts_with("9: ") || failure.find("byte") == std::string::npos)
      FAIL(length << ": " << failure);
  }
}

TEST_CASE("expand_braces: a range in braces gives one path for each number") {
  using Paths = std::vector<fs::path>;
  CHECK(expand_braces("a.tar") == Paths{"a.tar"});
  CHECK(expand_braces("a-{08..10}.tar") == Paths{"a-08.tar", "a-09.tar", "a-10.tar"});
  CHECK(expand_braces("{0..1}/{2..3}") == Paths{"0/2", "0/3", "1/2", "1/3"});
  for (const char* bad : {"{", "{}", "{a..b}", "{3..1}", "{1..", "{1}", "{-1..2}", "{0..99999999}",
                          "{0..9999}{0..9999}"}) {
    CHECK_THAT(failure_of([&] { (void)expand_braces(bad); }), StartsWith("2: "));
  }
}
