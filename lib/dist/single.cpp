#include "dist/communicator.hpp"

namespace trainctl::dist {
namespace {

class Done final : public Pending {
 public:
  void wait() override {}
};

class SingleSync final : public GradSync {
 public:
  void before_forward() override {}
  double backward(const at::Tensor& loss) override {
    loss.backward();
    return 0;
  }
};

class Single final : public Communicator {
 public:
  [[nodiscard]] Place place() const override { return {}; }
  std::unique_ptr<Pending> start_sum(const at::Tensor& /*tensor*/,
                                     const std::string& /*what*/) override {
    return std::make_unique<Done>();
  }
  std::unique_ptr<Pending> start_broadcast(const at::Tensor& /*tensor*/, int /*root*/,
                                           const std::string& /*what*/) override {
    return std::make_unique<Done>();
  }
  void broadcast(const at::Tensor& /*tensor*/, const std::string& /*what*/) override {}
  std::vector<at::Tensor> all_gather(const at::Tensor& tensor,
                                     const std::string& /*what*/) override {
    return {tensor.detach().clone()};
  }
  std::unique_ptr<GradSync> sync_gradients(std::vector<at::Tensor> /*parameters*/,
                                           const BucketOptions& /*buckets*/) override {
    return std::make_unique<SingleSync>();
  }
};

}  // namespace

std::unique_ptr<Communicator> make_single() { return std::make_unique<Single>(); }

}  // namespace trainctl::dist
