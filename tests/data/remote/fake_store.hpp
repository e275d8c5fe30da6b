#pragma once

#include "base/error.hpp"
#include "data/remote/local_tier.hpp"
#include "data/remote/object_store.hpp"
#include "support/temp_folder.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace trainctl::data::testing {

/// Stores objects in memory by URL and counts the requests.
class FakeStore final : public ObjectStore {
 public:
  struct Object {
    std::string bytes;
    std::string etag;
  };

  std::map<std::string, Object> objects;
  std::atomic<int> reads = 0;
  std::atomic<int> lists = 0;
  std::atomic<int> fails_after = -1;  // number of reads that succeed; -1: all
  std::chrono::milliseconds delay{0};

  std::optional<ObjectPart> read(const Url& url, const ByteRange& range) override {
    ++reads;
    std::this_thread::sleep_for(delay);
    if (fails_after == 0) throw Error(ErrorKind::resource, "the network is down");
    if (fails_after > 0) --fails_after;
    const auto found = objects.find(url.text);
    if (found == objects.end()) return std::nullopt;
    const auto& [bytes, etag] = found->second;
    return ObjectPart{range.offset < bytes.size() ? bytes.substr(range.offset, range.size) : "",
                      bytes.size(), etag};
  }

  std::vector<ObjectInfo> list(const Url& prefix) override {
    ++lists;
    std::vector<ObjectInfo> found;
    for (const auto& [url, object] : objects) {
      if (url.starts_with(prefix.text))
        found.push_back({url.substr(prefix.text.size()), object.bytes.size(), object.etag});
    }
    return found;
  }
};

/// Opens tiers in a temporary folder that use the fake store for every scheme.
struct FakeTier {
  std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
  TempFolder folder;
  spec::Budget budget{.bytes = std::uint64_t{1} << 30};

  /// Returns a tier like that of a new process, which knows only the content of the folder.
  [[nodiscard]] std::shared_ptr<LocalTier> open() const {
    return std::make_shared<LocalTier>(
        folder.path(), budget, LocalTier::Stores{{"http", store}, {"s3", store}, {"file", store}});
  }
};

/// Returns `size` bytes that differ between blocks.
inline std::string varied_bytes(std::size_t size, unsigned seed = 1) {
  std::string bytes(size, '\0');
  std::uint32_t state = seed * 2654435761U;
  for (char& c : bytes) {
    state = state * 1664525U + 1013904223U;
    c = static_cast<char>(state >> 24U);
  }
  return bytes;
}

inline std::string content_of(const std::shared_ptr<CachedObject>& object) {
  object->fetch();
  std::string bytes(object->size(), '\0');
  if (::pread(object->fd(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw std::runtime_error("a short read");
  return bytes;
}

}  // namespace trainctl::data::testing
