#pragma once

#include "stage/registry.hpp"

#include <memory>
#include <string>
#include <vector>

namespace trainctl::stages {

/// A model that consists of named models, whose parameters are called CHILD.weight, CHILD.bias.
class Container : public stage::Model {
 public:
  [[nodiscard]] std::vector<stage::NamedTensor> parameters() const override;
  [[nodiscard]] std::vector<stage::NamedTensor> buffers() const override;
  void set_mode(stage::RunMode mode) override;
  void to(at::Device device) override;
  [[nodiscard]] bool has_blocks() const override;
  bool checkpoint_activations() override;

 protected:
  void add(std::string name, std::unique_ptr<stage::Model> child);
  [[nodiscard]] std::size_t size() const { return children_.size(); }
  [[nodiscard]] stage::Model& child(std::size_t index) { return *children_[index].model; }
  /// Returns the output of the child with this index.
  at::Tensor forward_child(std::size_t index, const at::Tensor& inputs);

 private:
  struct Child {
    std::string name;
    std::unique_ptr<stage::Model> model;
  };
  std::vector<Child> children_;
};

/// A sequential model or a branch of one, like nn.Sequential. The parameters of the fourth layer
/// are called 3.weight, 3.bias.
class LayerList : public Container {
 public:
  /// The context is that of the first layer. The shapes of consecutive layers must fit; the caller
  /// has checked them.
  LayerList(const std::vector<config::Stage>& layers, stage::LayerContext context);

  at::Tensor forward(const at::Tensor& inputs) override;

 private:
  std::vector<bool> is_merged_;  // whether a neighboring layer computes this one, too
};

}  // namespace trainctl::stages
