#include "dist/torchrun_store.hpp"

#include "base/error.hpp"
#include "base/strings.hpp"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace trainctl::dist {
namespace {

constexpr std::size_t kMostBytes = 64 << 10;
// Timeout of one attempt; c10d makes three. torchrun starts the store before any task.
constexpr std::chrono::milliseconds kConnect{20'000};

std::string name_of(const TcpStoreAddress& store) {
  return fmt::format("torchrun's store at {}:{}", printable(store.host), store.port);
}

std::string first_line(const char* text) {
  return printable(split(text, '\n').front().substr(0, 300));
}

/// Runs `body` with the connected store, and converts exceptions of c10d into an Error.
template <class Body>
decltype(auto) with_store(const TcpStoreAddress& address, Body&& body) {
  try {
    c10d::TCPStoreOptions options;
    options.port = address.port;
    options.isServer = false;
    options.waitWorkers = false;
    options.timeout = std::min(address.timeout, kConnect);
    const auto store = c10::make_intrusive<c10d::TCPStore>(address.host, options);
    return std::forward<Body>(body)(*store);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const auto* libtorch = dynamic_cast<const c10::Error*>(&error);
    throw Error(
        ErrorKind::rank_failed,
        fmt::format(
            "cannot use {}: {}\nhint: check that torchrun is still running on that host",
            name_of(address),
            first_line(libtorch != nullptr ? libtorch->what_without_backtrace() : error.what())));
  }
}

/// Waits for a key; with_store() converts errors other than a timeout.
void await(c10d::Store& store, const std::string& key, const TcpStoreAddress& address) {
  using Seconds = std::chrono::duration<double>;
  const auto begun = std::chrono::steady_clock::now();
  try {
    store.wait({key}, address.timeout);
  } catch (const c10::Error&) {
    // c10d throws the same type for a lost connection and for a timeout.
    if (std::chrono::steady_clock::now() - begun < address.timeout * 9 / 10) throw;
    throw Error(
        ErrorKind::hang,
        fmt::format(
            "rank 0 has not published its address in {} within {}\nhint: check the log of rank 0",
            name_of(address), human_duration(Seconds(address.timeout).count())));
  }
}

}  // namespace

void publish_text(const TcpStoreAddress& store, const std::string& key, const std::string& text) {
  ASSERT(text.size() <= kMostBytes);
  with_store(store, [&](c10d::Store& open) {
    open.set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
  });
}

std::string fetch_text(const TcpStoreAddress& store, const std::string& key) {
  return with_store(store, [&](c10d::Store& open) {
    await(open, key, store);
    const std::vector<std::uint8_t> value = open.get(key);
    ENSURE(config, value.size() <= kMostBytes,
           "another program uses {}: the value of the key '{}' must have at most {}, got {}\n"
           "hint: use another port for this run",
           name_of(store), key, human_bytes(kMostBytes), human_bytes(value.size()));
    return std::string(value.begin(), value.end());
  });
}

}  // namespace trainctl::dist
