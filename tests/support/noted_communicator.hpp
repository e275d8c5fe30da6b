#pragma once

#include "dist/communicator.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

/// Forwards to another communicator and records the name of each collective.
class NotedCommunicator final : public trainctl::dist::Communicator {
 public:
  NotedCommunicator(std::unique_ptr<trainctl::dist::Communicator> inner,
                    std::vector<std::string>& exchanges)
      : inner_(std::move(inner)), exchanges_(exchanges) {}
  [[nodiscard]] trainctl::dist::RankInfo rank_info() const override { return inner_->rank_info(); }
  trainctl::dist::Pending start_sum(const at::Tensor& tensor, const std::string& what) override {
    exchanges_.push_back(what);
    return inner_->start_sum(tensor, what);
  }
  trainctl::dist::Pending start_broadcast(const at::Tensor& tensor, int root,
                                          const std::string& what) override {
    exchanges_.push_back(what);
    return inner_->start_broadcast(tensor, root, what);
  }
  trainctl::dist::Pending start_all_gather(const at::Tensor& all, const at::Tensor& mine,
                                           const std::string& what) override {
    exchanges_.push_back(what);
    return inner_->start_all_gather(all, mine, what);
  }
  void broadcast(const at::Tensor& tensor, const std::string& what) override {
    exchanges_.push_back(what);
    inner_->broadcast(tensor, what);
  }
  void broadcast_coalesced(const std::vector<at::Tensor>& tensors,
                           const std::string& what) override {
    exchanges_.push_back(what);
    inner_->broadcast_coalesced(tensors, what);
  }
  std::vector<at::Tensor> all_gather(const at::Tensor& tensor, const std::string& what) override {
    exchanges_.push_back(what);
    return inner_->all_gather(tensor, what);
  }
  std::unique_ptr<trainctl::dist::GradSync> sync_gradients(
      std::vector<at::Tensor> parameters, const trainctl::dist::BucketOptions& buckets) override {
    return inner_->sync_gradients(std::move(parameters), buckets);
  }

 private:
  std::unique_ptr<trainctl::dist::Communicator> inner_;
  std::vector<std::string>& exchanges_;
};
