#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "../../bench/suites/published_kernel.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"

using namespace trainyard;
using namespace trainyard::bench;

namespace {

const std::string kHeader = "op_name,forward-compute,backward-compute,input_size,output_size,weights,activations\n";

/// A tar archive: for each file a 512-byte header with its name and size, then its text in 512-byte blocks.
std::string archive(const std::map<std::string, std::string>& files) {
  std::string all;
  for (const auto& [name, text] : files) {
    std::string head(512, '\0');
    head.replace(0, name.size(), name);
    head.replace(124, 11, fmt::format("{:011o}", text.size()));
    all += head + text + std::string((512 - text.size() % 512) % 512, '\0');
  }
  return all + std::string(1024, '\0');
}

std::vector<NamedKernel> read(const std::string& file, const std::string& lines) {
  const test::TemporaryFolder folder;
  test::write_text(folder.path() / "p.tar", archive({{"profiled-time-eurosys/" + file, kHeader + lines}}));
  return aceso_kernels(folder.path() / "p.tar");
}

}  // namespace

TEST_CASE("ops of a GPT layer are products and rows of its sizes, those with collectives left out") {
  const std::string lines =
      "enc-MLP-GEMM-1,100,200,1,1,8\nenc-MLP-GEMM-2,100,200,1,1,8\nenc-attention-score,50,70,1,1,0\n";
  // gpt_350M: width 1,024, 16 heads of 64; 2 samples of 2,048 tokens.
  const auto whole = read("gpt_350M_mbs2_tp1_algo0.csv", lines);
  REQUIRE(whole.size() == 6);
  CHECK(whole[0].name == "linear, fp16");
  CHECK(whole[0].kernel.signature == "Linear(float16[4096,1024],float16[1024,4096])->float16[4096,4096]");
  CHECK(whole[0].kernel.flops == 2. * 4096 * 4096 * 1024);
  CHECK(whole[0].kernel.seconds == doctest::Approx(100e-6));
  CHECK(whole[1].name == "linear back, fp16");
  CHECK(whole[1].kernel.type == "LinearGrad");
  CHECK(whole[4].kernel.signature == "MatMul(float16[32,2048,64],float16[32,64,2048])->float16[32,2048,2048]");
  // With two ranks the times of GEMM-2, of its gradient and of GEMM-1's gradient include all-reduces: left out.
  const auto halves = read("gpt_350M_mbs2_tp2_algo0.csv", lines);
  REQUIRE(halves.size() == 3);
  CHECK(halves[0].kernel.signature == "Linear(float16[4096,1024],float16[1024,2048])->float16[4096,2048]");
  CHECK(halves[1].kernel.signature == "MatMul(float16[16,2048,64],float16[16,64,2048])->float16[16,2048,2048]");
  CHECK(read("gpt_350M_mbs2_tp1_algo1.csv", lines).empty());
}

TEST_CASE("ops of networks that no form was fitted to, and those of under 50 us, are classes of their own") {
  // 16 heads of 512 x 512 scores, 4 bytes each (read and written in 16 bit), take 19 us at 900 GB/s.
  const auto ops = read("t5_770M_mbs1_tp1_algo0.csv", "dec-attention-softmax-1,70,84,1,1,0\n");
  REQUIRE(ops.size() == 2);
  CHECK(ops[0].name == "softmax, fp16, short, unseen");
  CHECK(ops[0].kernel.signature == "Softmax(float16[8192,512])->float16[8192,512]");
}

TEST_CASE("a convolution's channels are what its weights say") {
  // 16 images; weights of 3 x 7 x 7 x 224, then of 224 x 224, 4 bytes each: 0.1256 and 0.1914 MiB.
  const auto ops = read("resnet_500M_mbs16_tp1_algo0.csv", "conv1,1,2,1,1,0.126\nblock-0-0-conv1,3,4,1,1,0.191\n");
  REQUIRE(ops.size() == 4);
  CHECK(ops[0].kernel.signature == "Conv(float32[16,3,224,224],float32[224,3,7,7])->float32[16,224,112,112]");
  CHECK(ops[1].kernel.type == "ConvGradW");  // the input images need no gradient
  CHECK(ops[3].kernel.type == "ConvGrad");
  CHECK(ops[3].kernel.signature.ends_with("->float32[16,224,56,56],float32[224,224,1,1]"));
}

TEST_CASE("a line that is no op is refused by its text") {
  CHECK_THROWS_WITH_AS(read("gpt_350M_mbs1_tp1_algo0.csv", "enc-MLP-gelu,fast,1,1,1,0\n"),
                       "profiled-time-eurosys/gpt_350M_mbs1_tp1_algo0.csv: 'enc-MLP-gelu,fast,1,1,1,0' is no op with "
                       "its times and sizes",
                       InputError);
}
