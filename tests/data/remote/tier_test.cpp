#include "base/hash.hpp"
#include "data/fakes.hpp"
#include "data/refusing_thread.hpp"
#include "data/remote/tier_files.hpp"
#include "support/catch.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <thread>
#include <vector>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

TEST_CASE("LocalTier: an object is downloaded once, then read from the local copy") {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, kBlock, 2 * kBlock + 5}) {
    FakeTier fake;
    const std::string bytes = varied_bytes(size);
    fake.store->objects[kUrl] = {bytes, "one"};
    CHECK(content_of(fake.open()->open(kUrl)) == bytes);
    CHECK(fake.store->reads ==
          static_cast<int>(std::max<std::size_t>(1, (size + kBlock - 1) / kBlock)));
    fake.store->objects.clear();  // a second start needs no request
    fake.store->reads = 0;
    const auto again = fake.open();
    CHECK(again->has_local_copy(kUrl));
    CHECK(content_of(again->open(kUrl)) == bytes);
    CHECK(fake.store->reads == 0);
  }
}

TEST_CASE("CachedObject: only the needed blocks are downloaded") {
  FakeTier fake;
  const std::string bytes = varied_bytes(5 * kBlock);
  fake.store->objects[kUrl] = {bytes, "one"};
  const FileStamp stamp = fake.open()->open(kUrl)->stamp();
  CHECK(stamp.size == bytes.size());
  CHECK(fake.store->reads == 1);
  const auto tier = fake.open();
  const auto object = tier->open(kUrl);  // requests another block to detect a change
  CHECK(fake.store->reads == 2);
  object->need(3 * kBlock - 1, 2);
  CHECK(fake.store->reads == 4);
  object->need(2 * kBlock, 2 * kBlock);
  CHECK(fake.store->reads == 4);
}

TEST_CASE("LocalTier: a missing object is a data error, and is requested again later") {
  FakeTier fake;
  const auto tier = fake.open();
  CHECK(tier->find(kUrl) == nullptr);
  CHECK(failure_of([&] { (void)tier->open(kUrl); }) ==
        "9: http://host/a/file.bin does not exist\nhint: correct the path");
  fake.store->objects[kUrl] = {"now", "one"};
  CHECK(content_of(tier->open(kUrl)) == "now");
}

TEST_CASE("CachedObject: an incomplete copy is resumed") {
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

TEST_CASE("CachedObject: an incomplete copy restarts if the object has changed") {
  FakeTier fake;
  fake.store->objects[kUrl] = {varied_bytes(3 * kBlock, 1), "one"};
  (void)fake.open()->open(kUrl);
  const std::string changed = varied_bytes(3 * kBlock + 7, 2);
  fake.store->objects[kUrl] = {changed, "two"};
  CHECK(content_of(fake.open()->open(kUrl)) == changed);
}

TEST_CASE("CachedObject: an object that changes while it is read is an error") {
  FakeTier fake;
  fake.store->objects[kUrl] = {varied_bytes(3 * kBlock, 1), "one"};
  const auto tier = fake.open();
  const auto object = tier->open(kUrl);
  fake.store->objects[kUrl] = {varied_bytes(3 * kBlock, 2), "two"};
  CHECK(failure_of([&] { object->fetch(); }).find("has changed since") != std::string::npos);
  CHECK(content_of(fake.open()->open(kUrl)) == varied_bytes(3 * kBlock, 2));
}

TEST_CASE("CachedObject: a damaged block is detected by its checksum and downloaded again") {
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

TEST_CASE("CachedObject: a copy with invalid notes or length is replaced") {
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

TEST_CASE("CachedObject: concurrent threads and tiers download an object once") {
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

TEST_CASE("LocalTier: a listing is requested once and cached") {
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
  fake.open()->remove_cached_list("s3://bucket/set/");
  CHECK(fake.open()->list("s3://bucket/set/").size() == 2);
  CHECK(fake.store->lists == 2);
}

TEST_CASE("CachedObject: only the holder of the lock removes a damaged copy") {
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

TEST_CASE("CachedObject: a signal does not interrupt the wait for a lock") {
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

TEST_CASE("CachedObject: an object is downloaded even if no thread can be started") {
  FakeTier fake;
  const std::string bytes = varied_bytes(3 * kBlock);
  fake.store->objects[kUrl] = {bytes, "one"};
  without_threads([&] {
    if (content_of(fake.open()->open(kUrl)) != bytes) throw std::runtime_error("other bytes");
  });
}
