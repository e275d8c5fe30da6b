#include "base/error.hpp"
#include "dist/c10d_group.hpp"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <chrono>

namespace trainctl::dist {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Keys = std::vector<std::string>;

class LaunchStore final : public c10d::Store {
 public:
  LaunchStore(std::shared_ptr<launch::StoreClient> client, std::chrono::milliseconds timeout)
      : Store(timeout), client_(std::move(client)) {}

  using Store::set;
  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<LaunchStore>(client_, timeout_);
  }
  void set(const std::string& key, const Bytes& value) override {
    client_->set(key, {value.begin(), value.end()});
  }
  Bytes get(const std::string& key) override {
    client_->wait({key}, timeout_);
    const auto value = client_->look(key);
    ENSURE(rank_failed, value.has_value(), "the rendezvous key '{}' vanished", key);
    return {value->begin(), value->end()};
  }
  std::int64_t add(const std::string& key, std::int64_t delta) override {
    return client_->add(key, delta);
  }
  bool deleteKey(const std::string& key) override { return client_->erase(key); }
  bool check(const Keys& keys) override {
    return std::all_of(keys.begin(), keys.end(),
                       [&](const auto& key) { return client_->look(key).has_value(); });
  }
  std::int64_t getNumKeys() override { return client_->size(); }
  void wait(const Keys& keys) override { wait(keys, timeout_); }
  void wait(const Keys& keys, const std::chrono::milliseconds& timeout) override {
    client_->wait(keys, timeout.count() > 0 ? timeout : timeout_);
  }

 private:
  std::shared_ptr<launch::StoreClient> client_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> make_c10d_store(const GroupOptions& options) {
  return c10::make_intrusive<c10d::PrefixStore>(
      options.prefix, c10::make_intrusive<LaunchStore>(options.store, options.timeout));
}

}  // namespace trainctl::dist
