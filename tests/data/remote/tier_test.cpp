#include "base/hash.hpp"
#include "data/fakes.hpp"
#include "data/refusing_thread.hpp"
#include "data/remote/fake_store.hpp"
#include "data/remote/mount.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <thread>
#include <vector>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

constexpr std::size_t kBlock = CachedObject::kBlock;
const std::string kUrl = "http://host/a/file.bin";

fs::path data_file(const FakeTier& fake) {
  return TierFolder(fake.folder.path(), fake.budget).files(kUrl).data;
}

std::uint64_t data_bytes(const fs::path& folder) {
  std::uint64_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    struct stat info {};
    if (::stat(entry.path().c_str(), &info) != 0) continue;  // just evicted
    if (S_ISREG(info.st_mode)) bytes += static_cast<std::uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

std::uint64_t bytes_on_disk(const FakeTier& fake) { return data_bytes(fake.folder / "objects"); }

bool holds_unfinished(const FakeTier& fake) {
  for (const auto& entry : fs::recursive_directory_iterator(fake.folder / "objects")) {
    if (entry.path().extension() == kUnfinished) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("an object is fetched once and read from the local copy from then on") {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kBlock, 2 * kBlock + 5}) {
    FakeTier fake;
    const std::string bytes = varied_bytes(size);
    fake.store->objects[kUrl] = {bytes, "one"};
    CHECK(content_of(fake.open()->open(kUrl)) == bytes);
    CHECK(fake.store->reads ==
          static_cast<int>(std::max<std::size_t>(1, (size + kBlock - 1) / kBlock)));
    fake.store->objects.clear();  // a second start asks nobody
    fake.store->reads = 0;
    const auto again = fake.open();
    CHECK(again->is_begun(kUrl));
    CHECK(content_of(again->open(kUrl)) == bytes);
    CHECK(fake.store->reads == 0);
  }
}

TEST_CASE("only the blocks that are needed are fetched") {
  FakeTier fake;
  const std::string bytes = varied_bytes(5 * kBlock);
  fake.store->objects[kUrl] = {bytes, "one"};
  const FileStamp stamp = fake.open()->open(kUrl)->stamp();
  CHECK(stamp.size == bytes.size());
  CHECK(fake.store->reads == 1);
  const auto tier = fake.open();
  const auto object = tier->open(kUrl);  // goes on with a block, to hear whether it is the same
  CHECK(fake.store->reads == 2);
  object->need(3 * kBlock - 1, 2);
  CHECK(fake.store->reads == 4);
  object->need(2 * kBlock, 2 * kBlock);
  CHECK(fake.store->reads == 4);
}

TEST_CASE("an object that is absent is an error of the data, and is asked for again") {
  FakeTier fake;
  const auto tier = fake.open();
  CHECK(tier->find(kUrl) == nullptr);
  CHECK(failure_of([&] { (void)tier->open(kUrl); }) ==
        "9: http://host/a/file.bin does not exist; correct the path");
  fake.store->objects[kUrl] = {"now", "one"};
  CHECK(content_of(tier->open(kUrl)) == "now");
}

TEST_CASE("a copy that was cut short goes on where it stopped") {
  FakeTier fake;
  const std::string bytes = varied_bytes(4 * kBlock);
  fake.store->objects[kUrl] = {bytes, "one"};
  fake.store->fails_after = 2;
  CHECK_THROWS_AS(content_of(fake.open()->open(kUrl)), Error);
  fake.store->fails_after = -1;
  fake.store->reads = 0;
  CHECK(content_of(fake.open()->open(kUrl)) == bytes);
  CHECK(fake.store->reads == 2);
}

TEST_CASE("a copy that was cut short begins anew where the object has changed") {
  FakeTier fake;
  fake.store->objects[kUrl] = {varied_bytes(3 * kBlock, 1), "one"};
  (void)fake.open()->open(kUrl);
  const std::string changed = varied_bytes(3 * kBlock + 7, 2);
  fake.store->objects[kUrl] = {changed, "two"};
  CHECK(content_of(fake.open()->open(kUrl)) == changed);
}

TEST_CASE("an object that changes while it is read is an error, not a mixture") {
  FakeTier fake;
  fake.store->objects[kUrl] = {varied_bytes(3 * kBlock, 1), "one"};
  const auto tier = fake.open();
  const auto object = tier->open(kUrl);
  fake.store->objects[kUrl] = {varied_bytes(3 * kBlock, 2), "two"};
  CHECK(failure_of([&] { object->fetch(); }).find("has changed since") != std::string::npos);
  CHECK(content_of(fake.open()->open(kUrl)) == varied_bytes(3 * kBlock, 2));
}

TEST_CASE("a damaged local copy is found by its checksum and fetched again") {
  FakeTier fake;
  const std::string bytes = varied_bytes(2 * kBlock + 100);
  fake.store->objects[kUrl] = {bytes, "one"};
  (void)content_of(fake.open()->open(kUrl));
  for (const std::size_t at : {std::size_t{0}, kBlock + 17, 2 * kBlock + 99}) {
    const int fd = ::open(data_file(fake).c_str(), O_RDWR | O_CLOEXEC);
    const char wrong = static_cast<char>(~bytes[at]);
    REQUIRE(::pwrite(fd, &wrong, 1, static_cast<off_t>(at)) == 1);
    ::close(fd);
    fake.store->reads = 0;
    CHECK(content_of(fake.open()->open(kUrl)) == bytes);
    CHECK(fake.store->reads == 1);
  }
}

TEST_CASE("a local copy whose notes or length are wrong counts as absent") {
  FakeTier fake;
  const std::string bytes = varied_bytes(1000);
  fake.store->objects[kUrl] = {bytes, "one"};
  (void)fake.open()->open(kUrl);
  const fs::path notes = data_file(fake).string() + ".notes";
  const auto size = fs::file_size(notes);
  for (std::uintmax_t left = 0; left < size; ++left) {
    fs::resize_file(notes, left);
    CHECK(content_of(fake.open()->open(kUrl)) == bytes);
    REQUIRE(fs::file_size(notes) == size);
  }
  fs::resize_file(data_file(fake), 999);
  CHECK(content_of(fake.open()->open(kUrl)) == bytes);
  fs::remove(notes);
  CHECK(content_of(fake.open()->open(kUrl)) == bytes);
}

TEST_CASE("threads and tiers that want the same object at once fetch it once") {
  FakeTier fake;
  const std::string bytes = varied_bytes(3 * kBlock);
  fake.store->objects[kUrl] = {bytes, "one"};
  fake.store->delay = std::chrono::milliseconds(30);
  std::vector<std::shared_ptr<LocalTier>> tiers{fake.open(), fake.open()};
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&, i] {
      if (content_of(tiers[static_cast<std::size_t>(i % 2)]->open(kUrl)) != bytes) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(fake.store->reads == 3);
}

TEST_CASE("objects used longest ago make room for others, and those in use stay") {
  FakeTier fake;
  fake.budget.bytes = 20'000;
  const auto url = [](int i) { return "http://host/" + std::to_string(i); };
  for (int i = 0; i < 10; ++i) fake.store->objects[url(i)] = {varied_bytes(4096, 7), "e"};
  const auto tier = fake.open();
  const auto held = tier->open(url(0));
  for (int i = 1; i < 10; ++i) {
    (void)tier->open(url(i));
    CHECK(bytes_on_disk(fake) <= 20'000);
  }
  CHECK(tier->is_begun(url(0)));
  CHECK(tier->is_begun(url(9)));
  CHECK_FALSE(tier->is_begun(url(1)));
  CHECK(content_of(held) == varied_bytes(4096, 7));
}

TEST_CASE("objects whose names end as files of the folder do are kept and evicted as others are") {
  FakeTier fake;
  fake.budget.bytes = 20'000;
  const auto url = [](const std::string& name) { return "http://host/" + name; };
  for (const char* name : {"a.notes", "b.new", "c.data", "d.notes", "e.new"})
    fake.store->objects[url(name)] = {varied_bytes(4096), "e"};
  const auto tier = fake.open();
  for (const char* name : {"a.notes", "b.new", "c.data", "d.notes", "e.new"}) {
    CHECK(content_of(tier->open(url(name))) == varied_bytes(4096));
    CHECK(bytes_on_disk(fake) <= 20'000);
  }
  CHECK_FALSE(tier->is_begun(url("a.notes")));
  CHECK(tier->is_begun(url("e.new")));
}

TEST_CASE("of objects that are used in quick succession the earliest goes first") {
  FakeTier fake;
  fake.budget.bytes = 20'000;  // two of them
  const auto url = [](int i) { return "http://host/" + std::to_string(i); };
  const auto tier = fake.open();
  for (int i = 0; i < 100; ++i) {
    fake.store->objects[url(i)] = {varied_bytes(4096), "e"};
    (void)tier->open(url(i));
    CHECK((i == 0 || tier->is_begun(url(i - 1))));
  }
}

TEST_CASE("a budget that cannot hold what is needed is a clear error") {
  FakeTier fake;
  fake.budget.bytes = 1000;
  fake.store->objects[kUrl] = {varied_bytes(4096), "one"};
  const auto message = failure_of([&] { (void)fake.open()->open(kUrl); });
  CHECK(message.starts_with("11: "));
  CHECK(message.find("need 8.0 KiB more, and dataset.cache.budget leaves 1000 B of 1000 B") !=
        std::string::npos);
  CHECK_FALSE(fake.open()->is_begun(kUrl));
}

TEST_CASE("a full disk is a clear error that names the folder and the way out") {
  FakeTier fake;
  fake.store->objects[kUrl] = {varied_bytes(4096), "one"};
  const auto tier = fake.open();
  const rlimit before = [] {
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    return limit;
  }();
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 2048;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = failure_of([&] { (void)tier->open(kUrl); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(message.find("cannot write") != std::string::npos);
  CHECK_FALSE(holds_unfinished(fake));
  CHECK(content_of(tier->open(kUrl)) == varied_bytes(4096));
}

TEST_CASE("a list is asked for once and kept") {
  FakeTier fake;
  fake.store->objects["s3://bucket/set/a/1.jpg"] = {"x", "1"};
  fake.store->objects["s3://bucket/set/b/2.jpg"] = {"yy", "2"};
  fake.store->objects["s3://bucket/setting"] = {"z", "3"};
  const auto objects = fake.open()->list("s3://bucket/set/");
  REQUIRE(objects.size() == 2);
  CHECK(objects[1].name == "b/2.jpg");
  CHECK(objects[1].size == 2);
  CHECK(fake.open()->list("s3://bucket/set/").size() == 2);
  CHECK(fake.store->lists == 1);
  fake.open()->forget_list("s3://bucket/set/");
  CHECK(fake.open()->list("s3://bucket/set/").size() == 2);
  CHECK(fake.store->lists == 2);
}

TEST_CASE("objects of several blocks give way once nobody reads them, in this process or another") {
  FakeTier fake;
  fake.budget.bytes = 60'000'000;
  const auto url = [](std::size_t i) { return "http://host/" + std::to_string(i); };
  std::vector<std::string> contents;
  for (std::size_t i = 0; i < 4; ++i) {
    contents.push_back(varied_bytes(20'000'000, static_cast<unsigned>(i)));
    fake.store->objects[url(i)] = {contents[i], "e"};
  }
  const std::vector<std::shared_ptr<LocalTier>> tiers{fake.open(), fake.open()};
  for (std::size_t i = 0; i < 12; ++i) {
    const std::size_t which = i * 5 % 4;
    if (content_of(tiers[i / 2 % 2]->open(url(which))) != contents[which]) FAIL(i);
    CHECK(bytes_on_disk(fake) <= 60'000'000);
  }
}

TEST_CASE("who reads waits a while for the room that others need just now") {
  FakeTier fake;
  fake.budget.bytes = 30'000'000;
  const std::string other = "http://host/b";
  fake.store->objects[kUrl] = {varied_bytes(20'000'000), "e"};
  fake.store->objects[other] = {varied_bytes(20'000'000), "e"};
  const auto tier = fake.open();
  mount_remote(tier);
  auto held = tier->open(kUrl);
  held->fetch();
  std::string failure;
  std::thread reader([&] {
    failure = failure_of([&] {
      const FileReader file(other);
      file.need_all();
    });
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  held.reset();
  reader.join();
  CHECK(failure.empty());
  held = tier->open(other);
  const FileReader file(kUrl);
  CHECK_THAT(failure_of([&] { file.need(0, 20'000'000, WhenFull::fail); }), StartsWith("11: "));
  mount_remote(std::shared_ptr<LocalTier>());
}

TEST_CASE("what is kept beside each object counts against the budget, too") {
  FakeTier fake;
  fake.budget.bytes = 400'000;
  const auto tier = fake.open();
  for (int i = 0; i < 200; ++i) {
    const std::string url = "http://host/" + std::to_string(i);
    fake.store->objects[url] = {varied_bytes(100), "e"};
    (void)tier->open(url);
  }
  CHECK(bytes_on_disk(fake) <= 400'000);
  int kept = 0;
  for (int i = 0; i < 200; ++i) kept += tier->is_begun("http://host/" + std::to_string(i)) ? 1 : 0;
  CHECK(kept >= 300'000 / (2 * 4096));
}

TEST_CASE("what a process remembers of its copies is bounded") {
  const TempFolder folder;
  TierFolder tier(folder.path(), {.bytes = 1000});
  constexpr std::uint64_t kMarks = 1'200'000;
  std::uint64_t known = 0;
  for (std::uint64_t mark = 0; mark < kMarks; ++mark) {
    tier.remember(mark);
    if (!tier.is_known(mark)) FAIL(mark);
  }
  for (std::uint64_t mark = 0; mark < kMarks; ++mark) known += tier.is_known(mark) ? 1 : 0;
  CHECK(known <= kMarks / 2);
}

TEST_CASE("a damaged copy is taken away only by who has the object's lock") {
  FakeTier fake;
  fake.store->objects[kUrl] = {varied_bytes(1000), "one"};
  (void)fake.open()->open(kUrl);
  fs::resize_file(data_file(fake).string() + ".notes", 10);
  TierFolder folder(fake.folder.path(), fake.budget);
  Fd lock = folder.lock(hash_bytes(std::as_bytes(std::span(kUrl))));
  std::thread other([&] { (void)fake.open()->open(kUrl); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(fs::exists(data_file(fake)));
  lock.reset();
  other.join();
  CHECK(fake.store->reads == 2);
}

TEST_CASE("a signal does not end the wait for a copy that another looks at") {
  FakeTier fake;
  fake.store->objects[kUrl] = {varied_bytes(1000), "one"};
  (void)fake.open()->open(kUrl);
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {};
  ::sigaction(SIGUSR1, &action, &before);
  Fd held(::open(data_file(fake).c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::flock(held.get(), LOCK_EX) == 0);
  std::string failure;
  std::thread waiting([&] { failure = failure_of([&] { (void)fake.open()->open(kUrl); }); });
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ::pthread_kill(waiting.native_handle(), SIGUSR1);
  }
  held.reset();
  waiting.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  CHECK(failure.empty());
}

TEST_CASE("a whole object is fetched where no further thread is to be had") {
  FakeTier fake;
  const std::string bytes = varied_bytes(3 * kBlock);
  fake.store->objects[kUrl] = {bytes, "one"};
  without_threads([&] {
    if (content_of(fake.open()->open(kUrl)) != bytes) throw std::runtime_error("other bytes");
  });
}

TEST_CASE("what is written while the folder is looked through counts against the budget") {
  constexpr std::uint64_t kBudget = 10 * 4096;
  const TempFolder folder;
  TierFolder tier(folder.path(), {.bytes = kBudget});
  std::atomic<std::uint64_t> most = 0;
  const auto keep = [&](int thread) {
    for (int i = 0; i < 300; ++i) {
      const fs::path data = tier.files(fmt::format("http://host/{}-{}", thread, i)).data;
      fs::create_directories(data.parent_path());
      try {
        tier.take(4096);
      } catch (const BudgetInUse&) {
        continue;
      }
      put_text(data, std::string(4096, 'x'));
      tier.settle(4096);
      const Fd guard = tier.lock(0);  // nobody takes or evicts meanwhile
      most = std::max<std::uint64_t>(most, data_bytes(folder / "objects"));
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) threads.emplace_back(keep, thread);
  for (std::thread& thread : threads) thread.join();
  CHECK(most > 0);
  CHECK(most <= kBudget);
}

TEST_CASE("a folder that cannot be looked through is told, and not taken for empty") {
  const TempFolder folder;
  TierFolder tier(folder.path(), {.bytes = 1'000'000});
  fs::remove_all(folder / "objects");
  put_text(folder / "objects", "in the way");
  CHECK(failure_of([&] { tier.take(1); }).starts_with("11: cannot look into "));
}
