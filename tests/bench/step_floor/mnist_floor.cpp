// The lower bound for a training step: MNIST's 784-128-64-10 network in a bare libtorch loop,
// written only for this run. It has the same math as configs/mnist/ffn.yaml (batch 64, Adam 1e-3,
// seeded shuffle, ToTensor and Normalize, loss and accuracy of training and validation), and
// nothing else: no config, no events, no timers, no early stopping.
//   bench_step_floor MNIST_FOLDER [EPOCHS] [THREADS]
#include <ATen/Parallel.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_fused_adam.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t kBatch = 64;
constexpr std::int64_t kPixels = 784;
using Bytes = std::vector<std::uint8_t>;

/// Returns the bytes of an IDX file, plain or .gz, without its header.
Bytes read_idx(const std::string& path, std::size_t header) {
  gzFile file = gzopen(std::ifstream(path).good() ? path.c_str() : (path + ".gz").c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open " + path);
  Bytes bytes;
  std::array<char, 1 << 16> chunk{};
  for (int n = 0; (n = gzread(file, chunk.data(), chunk.size())) > 0;)
    bytes.insert(bytes.end(), chunk.data(), chunk.data() + n);
  gzclose(file);
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
  return bytes;
}

struct Split {
  Bytes images, labels;
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
};

Split read_split(const std::string& folder, const std::string& prefix) {
  return {read_idx(folder + "/" + prefix + "-images-idx3-ubyte", 16),
          read_idx(folder + "/" + prefix + "-labels-idx1-ubyte", 8)};
}

struct Net {
  std::vector<at::Tensor> p;
  Net() {
    const std::array<std::int64_t, 4> widths{kPixels, 128, 64, 10};
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
      const double bound = 1 / std::sqrt(static_cast<double>(widths[i]));
      p.push_back(
          torch::empty({widths[i + 1], widths[i]}).uniform_(-bound, bound).requires_grad_());
      p.push_back(torch::empty({widths[i + 1]}).uniform_(-bound, bound).requires_grad_());
    }
  }
  [[nodiscard]] at::Tensor forward(const at::Tensor& x) const {
    const at::Tensor h1 = at::relu(at::linear(x, p[0], p[1]));
    return at::linear(at::relu(at::linear(h1, p[2], p[3])), p[4], p[5]);
  }
};

struct Adam {
  std::vector<at::Tensor> p, g, m, v, steps;
  explicit Adam(const std::vector<at::Tensor>& parameters) : p(parameters), g(p.size()) {
    for (const at::Tensor& t : p) {
      m.push_back(torch::zeros_like(t.detach()));
      v.push_back(torch::zeros_like(t.detach()));
      steps.push_back(torch::zeros({}));
    }
  }
  void step() {
    const torch::NoGradGuard guard;
    for (std::size_t i = 0; i < p.size(); ++i) g[i] = p[i].grad();
    at::_foreach_add_(steps, 1);
    at::_fused_adam_(p, g, m, v, {}, steps, 1e-3, 0.9, 0.999, 0.0, 1e-8, /*amsgrad=*/false,
                     /*maximize=*/false);
  }
  void zero_grad() {
    for (at::Tensor& t : p) t.mutable_grad().reset();
  }
};

/// Gathers and normalizes rows into tensors that are reused.
struct Batcher {
  const Split& split;
  at::Tensor images = torch::empty({kBatch, kPixels});
  at::Tensor labels = torch::empty({kBatch}, torch::kLong);
  std::array<float, 256> table{};

  explicit Batcher(const Split& from) : split(from) {
    for (std::size_t byte = 0; byte < 256; ++byte)
      table[byte] = (static_cast<float>(byte) / 255.0F - 0.1307F) / 0.3081F;
  }
  std::pair<at::Tensor, at::Tensor> gather(const std::int64_t* indices, std::int64_t rows) {
    auto* out = images.mutable_data_ptr<float>();
    auto* label = labels.mutable_data_ptr<std::int64_t>();
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::uint8_t* image = split.images.data() + indices[r] * kPixels;
      for (std::int64_t i = 0; i < kPixels; ++i) *out++ = table[image[i]];
      label[r] = split.labels[static_cast<std::size_t>(indices[r])];
    }
    return rows == kBatch ? std::pair(images, labels)
                          : std::pair(images.narrow(0, 0, rows), labels.narrow(0, 0, rows));
  }
};

struct Score {
  double loss = 0;
  std::int64_t hits = 0;
  void add(const at::Tensor& mean, const at::Tensor& logits, const at::Tensor& labels) {
    const torch::NoGradGuard guard;
    loss += mean.item<double>() * static_cast<double>(labels.size(0));
    hits += logits.argmax(1).eq(labels).sum().item<std::int64_t>();
  }
};

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Score train(Net& net, Adam& adam, Batcher& batcher, const std::vector<std::int64_t>& order) {
  Score score;
  const auto samples = static_cast<std::int64_t>(order.size());
  for (std::int64_t at = 0; at < samples; at += kBatch) {
    const auto [x, y] = batcher.gather(order.data() + at, std::min(kBatch, samples - at));
    adam.zero_grad();
    const at::Tensor logits = net.forward(x);
    const at::Tensor loss = at::cross_entropy_loss(logits, y);
    loss.backward();
    adam.step();
    score.add(loss, logits, y);
  }
  return score;
}

Score evaluate(const Net& net, Batcher& batcher, const std::vector<std::int64_t>& order) {
  const c10::InferenceMode guard;
  Score score;
  const auto samples = static_cast<std::int64_t>(order.size());
  for (std::int64_t at = 0; at < samples; at += kBatch) {
    const auto [x, y] = batcher.gather(order.data() + at, std::min(kBatch, samples - at));
    const at::Tensor logits = net.forward(x);
    score.add(at::cross_entropy_loss(logits, y), logits, y);
  }
  return score;
}

std::vector<std::int64_t> in_order(std::int64_t size) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

int run(const std::string& folder, int epochs) {
  const Split training = read_split(folder, "train");
  const Split test = read_split(folder, "t10k");
  torch::manual_seed(42);
  Net net;
  Adam adam(net.p);
  Batcher batcher(training), test_batcher(test);
  std::vector<std::int64_t> order = in_order(training.size());
  std::mt19937_64 random(42);
  std::printf("{\"epochs\": [");
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const double begin = now();
    const double cpu_begin = cpu_seconds();
    std::shuffle(order.begin(), order.end(), random);
    const Score trained = train(net, adam, batcher, order);
    const double middle = now();
    const Score tested = evaluate(net, test_batcher, in_order(test.size()));
    std::printf(
        "%s{\"train_s\": %.6f, \"eval_s\": %.6f, \"cpu_s\": %.6f, \"train_loss\": %.6f, "
        "\"val_accuracy\": %.4f}",
        epoch == 0 ? "" : ", ", middle - begin, now() - middle, cpu_seconds() - cpu_begin,
        trained.loss / static_cast<double>(training.size()),
        static_cast<double>(tested.hits) / static_cast<double>(test.size()));
  }
  std::printf("]}\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s MNIST_FOLDER [EPOCHS] [THREADS]\n", argv[0]);
    return 2;
  }
  try {
    at::set_num_threads(argc > 3 ? std::stoi(argv[3]) : 1);
    return run(argv[1], argc > 2 ? std::stoi(argv[2]) : 5);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
