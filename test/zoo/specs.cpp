#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/refusal.hpp"
#include "support/support.hpp"
#include "trainyard/core/error.hpp"
#include "trainyard/zoo/zoo.hpp"

using namespace trainyard;
using test::contains;

namespace {

std::vector<Finding> findings_of(const std::string& spec) {
  return test::findings_of([&] { make_network(spec); });
}

/// The finding of a spec that has exactly one.
Finding finding_of(const std::string& spec) {
  const auto findings = findings_of(spec);
  REQUIRE_MESSAGE(findings.size() == 1, spec);
  return findings.front();
}

}  // namespace

TEST_CASE("a network takes its parameters from the spec, and its defaults where the spec says nothing") {
  const Model given = make_network("resnet18:classes=10,batch=4");
  CHECK(given.name == "resnet18:classes=10,batch=4");
  CHECK(given.values[given.inputs[0]].shape == Shape{4, 3, 224, 224});
  CHECK(given.values[given.outputs[0]].shape == Shape{4, 10});
  const Model usual = make_network("resnet18");
  CHECK(usual.name == "resnet18");
  CHECK(usual.values[usual.outputs[0]].shape == Shape{32, 1000});
}

TEST_CASE("an unknown network brings the nearest name and the whole list") {
  const Finding finding = finding_of("resnt50");
  CHECK(finding.code == "unknown-network");
  CHECK(contains(finding.message, "'resnt50'"));
  CHECK(contains(finding.help, "did you mean 'resnet50'?"));
  for (const auto& network : networks()) CHECK(contains(finding.help, network.name));
}

TEST_CASE("a spec without a network's name is refused") {
  for (const char* spec : {"", ":", ":batch=2"}) CHECK(finding_of(spec).code == "spec");
}

TEST_CASE("an unknown parameter brings the nearest name and those that the network takes") {
  const Finding finding = finding_of("resnet50:bach=3");
  CHECK(finding.code == "unknown-parameter");
  CHECK(contains(finding.message, "'bach'"));
  CHECK(finding.help == "did you mean 'batch'? resnet50 takes batch, image, classes");
}

TEST_CASE("a parameter's value is a whole number") {
  for (const char* value : {"", "x", "1.5", "2e3", " 4", "4 ", "+4", "0x10", "-", "4;5"}) {
    const Finding finding = finding_of(std::string{"lenet:batch="} + value);
    CHECK_MESSAGE(finding.code == "spec", value);
    CHECK(contains(finding.message, "is not a whole number"));
  }
}

TEST_CASE("a parameter's value is within its range") {
  for (const char* value : {"0", "-1", "1048577", "99999999999999999999", "-99999999999999999999"}) {
    const Finding finding = finding_of(std::string{"lenet:batch="} + value);
    CHECK_MESSAGE(finding.code == "range", value);
    CHECK(contains(finding.help, "from 1 to 1048576"));
  }
}

TEST_CASE("what is not name=number is refused, with an example that works") {
  for (const char* spec : {"lenet:", "lenet:batch", "lenet:=4", "lenet:batch=4,", "lenet:,batch=4"}) {
    const Finding finding = finding_of(spec);
    CHECK_MESSAGE(finding.code == "spec", spec);
  }
  CHECK(finding_of("lenet:batch").help == "write 'lenet:batch=64', with commas between parameters");
}

TEST_CASE("a parameter given twice is refused") {
  CHECK(finding_of("lenet:batch=4,batch=4").code == "repeated-parameter");
}

TEST_CASE("all that is wrong with a spec is reported at once") {
  const auto findings = findings_of("resnet50:bach=1,image=3,foo");
  REQUIRE(findings.size() == 3);
  CHECK(findings[0].code == "unknown-parameter");
  CHECK(findings[1].code == "range");
  CHECK(findings[2].code == "spec");
}

TEST_CASE("the number of findings stays bounded") {
  std::string spec = "lenet:x";
  for (int i = 0; i < 100; ++i) spec += ",x";
  CHECK(findings_of(spec).size() == kMostFindings);
}

TEST_CASE("numbers that do not fit each other are refused in their own names") {
  CHECK(finding_of("gpt2:heads=7").message == "hidden=768 is not a multiple of heads=7");
  CHECK(finding_of("gpt2:heads=7").help == "the nearest multiples are 763 and 770");  // 7 x 109 and 7 x 110
  CHECK(finding_of("vit_b_16:image=100").code == "does-not-divide");
  CHECK(finding_of("nasnet_mobile:filters=6").code == "does-not-divide");
  CHECK(finding_of("deepseek_v3:rotary=3").message == "rotary=3 is not a multiple of 2");
  CHECK(finding_of("gnmt:hidden=1").help == "the smallest multiple is 2");
  CHECK(finding_of("gpt2:seq=2048").help == "add positions=2048");
  CHECK(finding_of("bert_base:seq=513").code == "range");
}

TEST_CASE("sizes beyond any machine are refused before they are built") {
  CHECK(finding_of("rnnlm:layers=1024,steps=4096").code == "too-large");
  CHECK(finding_of("gnmt:layers=1000,steps=1000").code == "too-large");
  CHECK(finding_of("gpt2:batch=1048576,seq=131072,positions=131072").code == "too-large");
  CHECK(finding_of("vgg16:batch=1048576,image=8192").code == "too-large");
}
