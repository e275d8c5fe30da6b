#include "data/sources.hpp"

#include "data/idx_files.hpp"
#include "data/loader/measurements.hpp"
#include "data/pack/make_pack.hpp"
#include "data/refusing_thread.hpp"
#include "data/remote/fake_store.hpp"
#include "data/remote/fetch_ahead.hpp"
#include "data/remote/local_tier.hpp"
#include "data/remote/object_store.hpp"
#include "data/tar_files.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;
using Catch::Matchers::Contains;

namespace {

/// Mirrors a local folder in a fake bucket, which is mounted as s3://bucket.
class Mirrored {
 public:
  Mirrored() { mount_remote(fake_.open()); }
  ~Mirrored() { mount_remote(std::shared_ptr<LocalTier>()); }
  Mirrored(const Mirrored&) = delete;
  Mirrored& operator=(const Mirrored&) = delete;

  void upload() {
    settle(local_.path());
    for (const auto& entry : fs::recursive_directory_iterator(local_.path())) {
      if (!entry.is_regular_file()) continue;
      const std::string name = fs::relative(entry.path(), local_.path()).string();
      fake_.store->objects[url(name).string()] = {get_text(entry.path()), name};
    }
  }
  [[nodiscard]] fs::path url(const std::string& name = "") const {
    return name.empty() ? "s3://bucket/set" : "s3://bucket/set/" + name;
  }
  [[nodiscard]] fs::path local(const std::string& name = "") const { return local_.path() / name; }
  [[nodiscard]] const TempFolder& folder() const { return local_; }
  FakeStore& store() { return *fake_.store; }
  /// Simulates a second start without the store.
  void restart_offline() {
    store().objects.clear();
    store().reads = store().lists = 0;
    mount_remote(fake_.open());
  }

 private:
  CacheHome cache_;
  FakeTier fake_;
  TempFolder local_;
};

template <class Options>
void check_same(Mirrored& mirrored, const std::string& type, const Options& local,
                const Options& remote) {
  mirrored.upload();
  const auto expected = build(type, local);
  for (int start = 0; start < 2; ++start) {
    CHECK(facts(type, remote).samples == expected->size());
    const auto found = build(type, remote);
    CHECK(found->layout() == expected->layout());
    CHECK(found->class_names() == expected->class_names());
    REQUIRE(found->size() == expected->size());
    for (std::int64_t i = 0; expected->images() != nullptr && i < expected->size(); ++i)
      CHECK(stored(*found, i) == stored(*expected, i));
    if (start == 0) {
      mirrored.restart_offline();
      continue;
    }
    CHECK(mirrored.store().reads == 0);
    CHECK(mirrored.store().lists == 0);
  }
}

}  // namespace

TEST_CASE("mnist: plain and gzipped files in a bucket equal local files") {
  for (const bool packed : {false, true}) {
    Mirrored mirrored;
    write_split(mirrored.local(), 20);
    if (packed) {
      for (const char* name : {kImages, kLabels}) {
        const std::string text = get_text(mirrored.local(name));
        fs::remove(mirrored.local(name));
        write_file(mirrored.local(std::string(name) + ".gz"), gzip({text.begin(), text.end()}));
      }
    }
    spec::dataset::Mnist local;
    local.root = mirrored.local();
    spec::dataset::Mnist remote;
    remote.root = mirrored.url();
    check_same(mirrored, "mnist", local, remote);
  }
}

TEST_CASE("image_folder: a folder in a bucket has the same classes and order as a local one") {
  Mirrored mirrored;
  for (const char* name : {"b/2.jpg", "b/10.jpg", "a/x/1.png", "a/9.png", "a/notes.txt", "top.jpg",
                           "a-b/1.jpg", "a/x-y/1.png"})
    put_text(mirrored.local(name), name);
  spec::dataset::ImageFolder local;
  local.root = mirrored.local();
  spec::dataset::ImageFolder remote;
  remote.root = mirrored.url();
  check_same(mirrored, "image_folder", local, remote);
}

TEST_CASE("image_list: a list in a bucket equals a local one, and cannot leave its root") {
  Mirrored mirrored;
  put_text(mirrored.local("list.csv"), "path,label\nx/1.jpg,owl\nx/2.jpg,crow\n");
  put_text(mirrored.local("x/1.jpg"), "one");
  put_text(mirrored.local("x/2.jpg"), "two");
  spec::dataset::ImageList local;
  local.path = mirrored.local("list.csv");
  spec::dataset::ImageList remote;
  remote.path = mirrored.url("list.csv");
  check_same(mirrored, "image_list", local, remote);
  put_text(mirrored.local("out.csv"), "../../other/1.jpg,owl\n");
  remote.path = mirrored.url("out.csv");
  mirrored.upload();
  const auto dataset = build("image_list", remote);
  std::vector<std::byte> scratch;
  CHECK_THAT(failure_of([&] { (void)dataset->images()->read(0, scratch); }),
             Contains("is outside of"));
}

TEST_CASE("image_list: a remote list may only name files on the same host, a local list any file") {
  Mirrored mirrored;
  put_text(mirrored.local("secret.jpg"), "secret");
  put_text(mirrored.local("x/1.jpg"), "one");
  const std::vector<std::string> names{"file://" + mirrored.local("secret.jpg").string(),
                                       "http://169.254.169.254/1.jpg", "s3://other/1.jpg",
                                       mirrored.url("x/1.jpg").string()};
  std::string list = "path,label\n";
  for (const std::string& name : names) list += name + ",0\n";
  put_text(mirrored.local("list.csv"), list);
  mirrored.upload();
  for (const std::string& name : names) mirrored.store().objects[name] = {"elsewhere", "e"};
  spec::dataset::ImageList options;
  options.path = mirrored.url("list.csv");
  for (const fs::path& root : {mirrored.url(), mirrored.local()}) {
    options.root = root;
    options.follow_links = false;
    const auto strict = build("image_list", options);
    for (std::int64_t i = 0; i < 3; ++i)
      CHECK_THAT(failure_of([&] { (void)stored(*strict, i); }),
                 StartsWith("9: ") && Contains("follow_links"));
    CHECK(stored(*strict, 3) == "elsewhere");
    options.follow_links = true;
    CHECK(stored(*build("image_list", options), 1) == "elsewhere");
  }
  options = {};
  options.path = mirrored.local("list.csv");
  CHECK(stored(*build("image_list", options), 1) == "elsewhere");
}

TEST_CASE("webdataset: shards in a bucket equal local ones, by range and by pattern") {
  Mirrored mirrored;
  for (int i = 0; i < 3; ++i) {
    const std::string number = std::to_string(i);
    put_text(mirrored.local("s-" + number + ".tar"), tar_member(number + ".jpg", "image" + number) +
                                                         tar_member(number + ".cls", number) +
                                                         tar_end());
  }
  for (const char* pattern : {"s-{0..2}.tar", "s-*.tar", "s-?.tar"}) {
    spec::dataset::Webdataset local;
    local.shards = {mirrored.local(pattern)};
    spec::dataset::Webdataset remote;
    remote.shards = {mirrored.url(pattern)};
    check_same(mirrored, "webdataset", local, remote);
  }
  spec::dataset::Webdataset none;
  none.shards = {mirrored.url("t-*.tar")};
  CHECK_THAT(failure_of([&] { (void)build("webdataset", none); }), Contains("no file matches"));
}

TEST_CASE("webdataset: remote and local shards can be mixed and keep their names") {
  Mirrored mirrored;
  for (int i = 0; i < 2; ++i) {
    const std::string number = std::to_string(i);
    put_text(mirrored.local("s-" + number + ".tar"), tar_member(number + ".jpg", "image" + number) +
                                                         tar_member(number + ".cls", number) +
                                                         tar_end());
  }
  mirrored.upload();
  spec::dataset::Webdataset mixed;
  mixed.shards = {mirrored.local("s-0.tar"), mirrored.url("s-1.tar")};
  const auto dataset = build("webdataset", mixed);
  // Read-ahead reads files directly, and blocks of the remote file may be missing.
  CHECK(dataset->images()->ranges() == nullptr);
  CHECK(dataset->fetchable() != nullptr);
  CHECK(stored(*dataset, 0) == "image0");
  CHECK(stored(*dataset, 1) == "image1");
  CHECK(dataset->images()->name(0) == mirrored.local("s-0.tar").string() + ":0.jpg");
  CHECK(dataset->images()->name(1) == "s3://bucket/set/s-1.tar:1.jpg");
}

TEST_CASE("image_list: a local list may name remote images") {
  Mirrored mirrored;
  put_text(mirrored.local("x/1.jpg"), "one");
  put_text(mirrored.local("x/2.jpg"), "two");
  put_text(mirrored.local("list.csv"),
           "x/1.jpg,owl\n" + mirrored.url("x/2.jpg").string() + ",crow\n");
  mirrored.upload();
  spec::dataset::ImageList options;
  options.path = mirrored.local("list.csv");
  CHECK(facts("image_list", options).samples == 2);
  for (int start = 0; start < 2; ++start) {
    const auto dataset = build("image_list", options);
    CHECK(stored(*dataset, 0) == "one");
    CHECK(stored(*dataset, 1) == "two");
    CHECK(dataset->images()->name(1) == "s3://bucket/set/x/2.jpg");
    mirrored.restart_offline();
  }
}

TEST_CASE("image_folder: an outdated list or copy is refreshed at the next start") {
  for (const bool old_list : {true, false}) {
    Mirrored mirrored;
    for (const char* name : {"a/1.jpg", "b/2.jpg"}) put_text(mirrored.local(name), "before");
    mirrored.upload();
    spec::dataset::ImageFolder options;
    options.root = mirrored.url();
    const auto first = build("image_folder", options);
    if (!old_list) {
      CHECK(stored(*first, 0) == "before");
      remote_tier()->remove_cached_list(mirrored.url().string() + "/");
    }
    mirrored.store().objects[mirrored.url("a/1.jpg").string()] = {"after", "another"};
    const auto second = build("image_folder", options);
    CHECK_THAT(failure_of([&] { (void)stored(*second, 0); }),
               StartsWith("9: ") && Contains("has changed since it was listed"));
    CHECK(stored(*build("image_folder", options), 0) == "after");
  }
}

TEST_CASE("file URLs: links to files are followed, and other links are errors") {
  const TempFolder folder;
  const TempFolder elsewhere;
  const auto list = [&] {
    return file_store()->list(parse_url("file://" + folder.path().string() + "/"));
  };
  put_text(folder / "a/1.jpg", "one");
  put_text(elsewhere / "b/2.jpg", "two");
  fs::create_symlink(elsewhere / "b/2.jpg", folder / "a/2.jpg");
  CHECK(list().size() == 2);
  fs::create_directory_symlink(elsewhere / "b", folder / "b");
  CHECK_THAT(failure_of([&] { (void)list(); }),
             StartsWith("9: ") && Contains("/b is a symbolic link to a folder"));
  fs::remove(folder / "b");
  fs::create_symlink("nowhere", folder / "a/3.jpg");
  CHECK_THAT(failure_of([&] { (void)list(); }),
             StartsWith("9: ") && Contains("/a/3.jpg is a broken symbolic link"));
}

TEST_CASE("csv and tokens: files in a bucket equal local ones") {
  Mirrored mirrored;
  put_text(mirrored.local("t.csv"), "a,b,label\n1,2,0\n3,4,1\n");
  put_text(mirrored.local("t.bin"), varied_bytes(200));
  spec::dataset::Csv csv;
  csv.label = "label";
  csv.path = mirrored.local("t.csv");
  spec::dataset::Csv remote_csv = csv;
  remote_csv.path = mirrored.url("t.csv");
  check_same(mirrored, "csv", csv, remote_csv);
  spec::dataset::Tokens tokens;
  tokens.sequence_length = 8;
  tokens.path = mirrored.local("t.bin");
  spec::dataset::Tokens remote_tokens = tokens;
  remote_tokens.path = mirrored.url("t.bin");
  check_same(mirrored, "tokens", tokens, remote_tokens);
}

TEST_CASE("pack: a pack in a bucket equals a local one, and only needed blocks are downloaded") {
  Mirrored mirrored;
  spec::dataset::SyntheticDigits digits;
  digits.samples = 36'000;  // four blocks, with the index in the last
  make_pack(*build("synthetic_digits", digits), mirrored.local("d.pack"), {});
  mirrored.upload();
  spec::dataset::Pack options;
  options.path = mirrored.url("d.pack");
  const auto pack = build("pack", options);
  CHECK(mirrored.store().reads == 2);  // its first and last block
  CHECK(stored(*pack, 15'000).size() == 784);
  CHECK(mirrored.store().reads == 3);
  CHECK(stored(*pack, 15'001).size() == 784);
  CHECK(mirrored.store().reads == 3);
  spec::dataset::Pack local;
  local.path = mirrored.local("d.pack");
  const auto expected = build("pack", local);
  LoaderOptions loading;
  loading.batch_size = 100;
  CHECK(digest_epochs({pack}, loading, 1).digest == digest_epochs({expected}, loading, 1).digest);
}

TEST_CASE("FetchAhead: samples are downloaded in the order of the epoch") {
  Mirrored mirrored;
  for (int i = 0; i < 40; ++i)
    put_text(mirrored.local("c/" + std::to_string(i) + ".jpg"), std::to_string(i));
  mirrored.upload();
  spec::dataset::ImageFolder options;
  options.root = mirrored.url();
  const auto dataset = build("image_folder", options);
  FetchAhead ahead(dataset, 1);
  CHECK(mirrored.store().reads == 0);
  auto order = std::make_shared<Permutation>(40);
  for (std::int64_t i = 0; i < 40; ++i)
    (*order)[static_cast<std::size_t>(i)] = static_cast<std::uint32_t>(39 - i);
  ahead.begin({order, 1, 2, 20});  // every second sample: one rank of two
  for (int wait = 0; wait < 6000 && mirrored.store().reads < 20; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK(mirrored.store().reads == 20);
  std::vector<std::byte> scratch;
  for (std::int64_t i = 0; i < 20; ++i)
    (void)dataset->images()->read((*order)[static_cast<std::size_t>(1 + 2 * i)], scratch);
  CHECK(mirrored.store().reads == 20);
}

TEST_CASE("FetchAhead: without threads, samples are downloaded when they are read") {
  Mirrored mirrored;
  for (int i = 0; i < 5; ++i) put_text(mirrored.local("c/" + std::to_string(i) + ".jpg"), "image");
  put_text(mirrored.local("large.bin"), varied_bytes(3 * CachedObject::kBlock));
  mirrored.upload();
  without_threads([&] {
    spec::dataset::ImageFolder options;
    options.root = mirrored.url();
    const auto dataset = build("image_folder", options);
    FetchAhead ahead(dataset, 1);
    ahead.begin({.count = 5});
    for (std::int64_t i = 0; i < 5; ++i) {
      if (stored(*dataset, i) != "image") throw std::runtime_error("another image");
      ahead.used(1);
    }
    remote_tier()->open(mirrored.url("large.bin"))->fetch();
  });
  CHECK(mirrored.store().reads == 5 + 3);
}

TEST_CASE("FetchAhead: downloads stay within their share of the budget") {
  CacheHome cache;
  FakeTier fake;
  fake.budget.bytes = 100 * 4096;
  for (int i = 0; i < 200; ++i)
    fake.store->objects["s3://bucket/set/c/" + std::to_string(1000 + i) + ".jpg"] = {
        varied_bytes(4096), "e"};
  mount_remote(fake.open());
  spec::dataset::ImageFolder options;
  options.root = "s3://bucket/set";
  {
    const auto dataset = build("image_folder", options);
    FetchAhead ahead(dataset, 1);
    ahead.begin({.count = 200});
    std::vector<std::byte> scratch;
    for (std::int64_t i = 0; i < 200; ++i) {
      (void)dataset->images()->read(i, scratch);
      ahead.used(1);
    }
  }
  CHECK(fake.store->reads == 200);  // no sample was evicted before its use
  mount_remote(std::shared_ptr<LocalTier>());
}
