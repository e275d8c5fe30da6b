#include "data/fakes.hpp"
#include "data/formats/file_reader.hpp"
#include "data/remote/local_tier.hpp"
#include "data/remote/tier_files.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>
#include <vector>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

TEST_CASE("TierFolder: the least recently used objects are evicted, objects in use stay") {
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
  CHECK(tier->has_local_copy(url(0)));
  CHECK(tier->has_local_copy(url(9)));
  CHECK_FALSE(tier->has_local_copy(url(1)));
  CHECK(content_of(held) == varied_bytes(4096, 7));
}

TEST_CASE(
    "TierFolder: objects whose names look like internal files are kept and evicted as usual") {
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
  CHECK_FALSE(tier->has_local_copy(url("a.notes")));
  CHECK(tier->has_local_copy(url("e.new")));
}

TEST_CASE("TierFolder: objects used in quick succession are evicted in the order of their use") {
  FakeTier fake;
  fake.budget.bytes = 20'000;  // room for two objects
  const auto url = [](int i) { return "http://host/" + std::to_string(i); };
  const auto tier = fake.open();
  for (int i = 0; i < 100; ++i) {
    fake.store->objects[url(i)] = {varied_bytes(4096), "e"};
    (void)tier->open(url(i));
    CHECK((i == 0 || tier->has_local_copy(url(i - 1))));
  }
}

TEST_CASE("TierFolder: a budget that is too small for one object is an error") {
  FakeTier fake;
  fake.budget.bytes = 1000;
  fake.store->objects[kUrl] = {varied_bytes(4096), "one"};
  const auto message = failure_of([&] { (void)fake.open()->open(kUrl); });
  CHECK(message.starts_with("11: "));
  CHECK(message.find("only 1000 B of the 1000 B of dataset.cache.budget are free") !=
        std::string::npos);
  CHECK_FALSE(fake.open()->has_local_copy(kUrl));
}

TEST_CASE("LocalTier: a full disk is an error and leaves no unfinished file") {
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
  CHECK_FALSE(has_unfinished_file(fake));
  CHECK(content_of(tier->open(kUrl)) == varied_bytes(4096));
}

TEST_CASE("TierFolder: objects of several blocks are evicted when no process reads them") {
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

TEST_CASE("FileReader: a read waits a while for space that other readers use") {
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

TEST_CASE("TierFolder: the notes files count against the budget") {
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
  for (int i = 0; i < 200; ++i)
    kept += tier->has_local_copy("http://host/" + std::to_string(i)) ? 1 : 0;
  CHECK(kept >= 300'000 / (2 * 4096));
}

TEST_CASE("TierFolder: the number of verified marks is bounded") {
  const TempFolder folder;
  TierFolder tier(folder.path(), {.bytes = 1000});
  constexpr std::uint64_t kMarks = 1'200'000;
  std::uint64_t known = 0;
  for (std::uint64_t mark = 0; mark < kMarks; ++mark) {
    tier.mark_verified(mark);
    if (!tier.is_verified(mark)) FAIL(mark);
  }
  for (std::uint64_t mark = 0; mark < kMarks; ++mark) known += tier.is_verified(mark) ? 1 : 0;
  CHECK(known <= kMarks / 2);
}

TEST_CASE("TierFolder: bytes written during an eviction count against the budget") {
  constexpr std::uint64_t kBudget = 10 * 4096;
  const TempFolder folder;
  TierFolder tier(folder.path(), {.bytes = kBudget});
  std::atomic<std::uint64_t> most = 0;
  const auto keep = [&](int thread) {
    for (int i = 0; i < 100; ++i) {
      const fs::path data = tier.files(fmt::format("http://host/{}-{}", thread, i)).data;
      fs::create_directories(data.parent_path());
      try {
        tier.reserve(4096);
      } catch (const BudgetInUse&) {
        continue;
      }
      put_text(data, std::string(4096, 'x'));
      tier.commit(4096);
      const Fd guard = tier.lock(0);  // blocks other threads from reserving or evicting
      most = std::max<std::uint64_t>(most, data_bytes(folder / "objects"));
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) threads.emplace_back(keep, thread);
  for (std::thread& thread : threads) thread.join();
  CHECK(most > 0);
  CHECK(most <= kBudget);
}

TEST_CASE("TierFolder: an unreadable folder is an error, not an empty folder") {
  const TempFolder folder;
  TierFolder tier(folder.path(), {.bytes = 1'000'000});
  fs::remove_all(folder / "objects");
  put_text(folder / "objects", "in the way");
  CHECK(failure_of([&] { tier.reserve(1); }).starts_with("11: cannot read folder "));
}
