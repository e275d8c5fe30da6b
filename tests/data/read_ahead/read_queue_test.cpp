#include "data/read_ahead/read_queue.hpp"

#include "base/files.hpp"
#include "data/refusing_thread.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <fcntl.h>

#include <cerrno>
#include <fstream>
#include <map>
#include <set>
#include <string>

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;

namespace {

std::map<std::uint32_t, std::int64_t> collect(ReadQueue& queue, std::size_t count) {
  std::vector<ReadResult> results;
  while (results.size() < count) queue.collect(1, results);
  std::map<std::uint32_t, std::int64_t> by_tag;
  for (const ReadResult& result : results) by_tag[result.tag] = result.result;
  REQUIRE(by_tag.size() == count);
  return by_tag;
}

/// Checks the contract of a queue, with `memory` for its reads.
void check_queue(ReadQueue& queue, std::span<std::byte> memory) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += static_cast<char>('a' + i * 7 % 26);
  std::ofstream(folder / "file", std::ios::binary) << text;
  const Fd file(::open((folder / "file").c_str(), O_RDONLY | O_CLOEXEC));
  const Fd directory(::open(folder.path().c_str(), O_RDONLY | O_CLOEXEC));
  for (std::uint32_t i = 0; i < 16; ++i)
    queue.submit({file.get(), 1000 * i, memory.subspan(1000 * i, 1000), i});
  for (const auto& [tag, result] : collect(queue, 16)) CHECK(result == 1000);
  CHECK(std::string(reinterpret_cast<const char*>(memory.data()), 16'000) ==
        text.substr(0, 16'000));
  queue.submit({file.get(), 19'900, memory.first(1000), 1});
  queue.submit({file.get(), 20'000, memory.subspan(1000, 1000), 2});
  queue.submit({directory.get(), 0, memory.subspan(2000, 1000), 3});
  queue.submit({-1, 0, memory.subspan(3000, 1000), 4});
  CHECK(collect(queue, 4) ==
        std::map<std::uint32_t, std::int64_t>{{1, 100}, {2, 0}, {3, -EISDIR}, {4, -EBADF}});
}

}  // namespace

TEST_CASE("thread_queue: reads many ranges at once, and reports short reads and errors") {
  std::vector<std::byte> memory(16'000);
  const auto queue = thread_queue(4);
  check_queue(*queue, memory);
}

TEST_CASE("uring_queue: reads many ranges at once, and reports short reads and errors") {
  std::vector<std::byte> memory(16'000);
  const auto queue = uring_queue(16, memory);
  if (!queue) skip("this machine, or this build, has no io_uring");
  check_queue(*queue, memory);
}

TEST_CASE("uring_queue: returns null if the kernel does not allow io_uring") {
  for (const int error : {EPERM, ENOSYS, ENOMEM}) {
    without_uring(error, [] {
      std::vector<std::byte> memory(4096);
      if (uring_queue(16, memory) != nullptr) throw std::runtime_error("the queue was created");
    });
  }
}

TEST_CASE("thread_queue: ends all reads when it is destroyed") {
  constexpr std::size_t kPiece = 4096;
  constexpr std::uint32_t kPieces = 100;
  std::vector<std::byte> memory(kPiece * kPieces);
  const TempFolder folder;
  std::ofstream(folder / "file", std::ios::binary) << std::string(kPiece, 'x');
  const Fd file(::open((folder / "file").c_str(), O_RDONLY | O_CLOEXEC));
  auto queue = thread_queue(3);
  const std::span<std::byte> all(memory);
  for (std::uint32_t i = 0; i < kPieces; ++i)
    queue->submit({file.get(), 0, all.subspan(kPiece * i, kPiece), i});
  queue.reset();
  // A read that outlives the queue would write here, or fail on the closed file.
  const std::vector<std::byte> at_the_end = memory;
  for (std::size_t i = 0; i < memory.size(); i += kPiece) {
    const std::set<std::byte> values(&memory[i], &memory[i] + kPiece);
    CHECK(values.size() == 1);
  }
  CHECK(memory == at_the_end);
}
