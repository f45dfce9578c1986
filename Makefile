# SPDX-License-Identifier: BSD-2-Clause
# The front door.  Meson does the building; this installs what is missing,
# names the usual tasks and keeps their build directories apart.

BUILD ?= build
SIM_SEEDS ?= 10000
FUZZ_SECONDS ?= 60

# Suites that run foreign programs on our libraries; the others are our own
# executables, for which the sanitizers also look for leaks.
FOREIGN = --suite apps --suite netns --suite abi --suite conformance
OURS = --no-suite apps --no-suite netns --no-suite abi --no-suite conformance \
	--no-suite trace

# A sanitized library in a program that is not needs the runtime in front, and
# what those programs leak is their own affair.  The checker has no sanitizer: its
# programs ("checked") are not run again.  ASAN_PART=N:I: every Nth case,
# from the Ith on.
ASAN_PART ?= 1
RUNTIME = $$(gcc -print-file-name=lib$(1).so)
ASAN_FOREIGN = env LD_PRELOAD=$(call RUNTIME,asan):$(call RUNTIME,ubsan) \
	ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0

all: configure
	@ninja -C $(BUILD)

# Nothing if it is done, unless PREFIX changes, or what urnic is built with if
# it is there has come or gone (scripts/features).
configure:
	@PREFIX='$(PREFIX)' scripts/configure $(BUILD) $(MESON_FLAGS)

# The libraries, urnicd and the command, without tests and benchmarks.
product: configure
	@ninja -C $(BUILD) product

demo:
	@scripts/deps build demo
	@$(MAKE) --no-print-directory product
	@scripts/demo $(BUILD)

test:
	@scripts/deps build test
	@$(MAKE) --no-print-directory all
	@scripts/run_tests $(BUILD)

# A few minutes of it: what differs between users, containers and machines,
# and every sixth case of the three long groups.  Tests of suite "pure" make no
# system call that could differ (tests/unit/roce/pure_symbols_test).
SHORT = apps-devices apps-pingpong apps-crowd apps-progs apps-life apps-raw \
	apps-config apps-demos conformance-caps conformance-pyverbs \
	netns-veth1500-devices netns-veth1500-raw netns-veth1500-migrate
test-short:
	@scripts/deps build test
	@$(MAKE) --no-print-directory all
	@status=0; \
	scripts/run_tests $(BUILD) --suite unit --suite abi --suite daemon \
		--no-suite pure || status=1; \
	scripts/run_tests $(BUILD) $(SHORT) || status=1; \
	URNIC_TEST_PART=6 scripts/run_tests $(BUILD) apps-perftest \
		apps-rdmacm apps-rsocket || status=1; \
	exit $$status

# urnic, its alternatives and the machine's limits in one run, within twenty
# minutes; BENCH=quick within three, and published nowhere.
bench:
	@scripts/deps build bench
	@scripts/deps peers || echo "bench: compares with what is there"
	@$(MAKE) --no-print-directory all
	@bench/run $(BUILD) $(if $(filter quick,$(BENCH)),--quick,--publish)

# 10,000 seeds of the simulator; `make test` runs a short piece of it.
sim:
	@scripts/deps build test
	@$(MAKE) --no-print-directory all
	$(BUILD)/tests/sim/sim --seeds 1-$(SIM_SEEDS)

fuzz:
	@scripts/deps build fuzz
	@CC=clang scripts/configure build-fuzz -Dfuzz=true >/dev/null
	@ninja -C build-fuzz fuzz
	@scripts/fuzz build-fuzz $(FUZZ_SECONDS)

asan:
	@scripts/deps build test
	@scripts/configure build-asan -Db_sanitize=address,undefined \
		-Db_lundef=false -Doptimization=1 >/dev/null
	@ninja -C build-asan
	@status=0; \
	scripts/run_tests build-asan $(OURS) -t 4 || status=1; \
	URNIC_TEST_PART=$(ASAN_PART) \
	scripts/run_tests build-asan $(FOREIGN) --no-suite jumbo --no-suite checked -t 4 \
		--wrapper "$(ASAN_FOREIGN)" || status=1; \
	exit $$status

# Tests of suite "pure" have one thread.
tsan:
	@scripts/deps build test
	@scripts/configure build-tsan -Db_sanitize=thread -Db_lundef=false \
		-Doptimization=1 -Dc_args=-Wno-tsan >/dev/null
	@ninja -C build-tsan
	@TSAN_OPTIONS="halt_on_error=1 suppressions=$(CURDIR)/scripts/tsan.supp" \
		scripts/run_tests build-tsan $(OURS) --no-suite pure -t 4

# Against the kernel's own rxe and siw, in a virtual machine (root).
INTEROP ?=
interop:
	@scripts/deps build
	@scripts/deps interop || echo "interop: not all programs are there"
	@$(MAKE) --no-print-directory all
	@tests/interop/run.py --urnic $(BUILD)/urnic \
		--progs $(BUILD)/tests/progs $(INTEROP) || [ $$? -eq 77 ]

# urnic, rxe and siw in that machine: ratios, into docs/bench-guest.md.
bench-guest:
	@scripts/deps build
	@scripts/deps interop || echo "bench-guest: not all programs are there"
	@$(MAKE) --no-print-directory all
	@bench/guest $(BUILD) -o docs/bench-guest.md || [ $$? -eq 77 ]

lint:
	@scripts/deps build lint
	@scripts/lint

# PREFIX and DESTDIR; uninstall wants the same two.
install: product
	@DESTDIR='$(DESTDIR)' scripts/install $(BUILD)

uninstall: configure
	@DESTDIR='$(DESTDIR)' scripts/install --undo $(BUILD)

# The source archive of the last commit; its hash depends on the commit alone.
dist:
	@scripts/dist

# Packages, into build-packages: of the working tree, and of the last commit.
# ARCH=arm64: cross-built, in a directory of its own (root).
deb:
	@[ -n '$(ARCH)' ] || scripts/deps deb
	@ARCH='$(ARCH)' scripts/deb

rpm:
	@scripts/deps rpm
	@scripts/rpm

# Build, demo and a short form of the tests in a directory with another Debian, with
# the compiler and the programs of that (root): bookworm, trixie or testing.
DIST ?= trixie
test-on:
	@scripts/test_on $(DIST)

# Packages built in a clean Debian and used in a bare one (root); RELEASES=arm64:
# cross-built, and used under qemu-user.  FROM=COMMIT: and an upgrade from the
# packages of that commit.
RELEASES ?= 12 13
PACKAGES ?= all
test-deb:
	@[ $(PACKAGES) != all ] || scripts/deps container || \
		echo "test-deb: containers need what is missing"
	@FROM='$(FROM)' tests/packages/run $(PACKAGES) $(RELEASES)

# An image of the packages, the files for Kubernetes and CI, in rootless podman
# (root makes its base); CONTAINER=all also builds from the source archive there,
# RELEASE=13 takes Debian 13.
CONTAINER ?= short
test-container:
	@scripts/deps container || echo "test-container: needs what is missing"
	@RELEASE='$(RELEASE)' tests/container/run $(CONTAINER) || [ $$? -eq 77 ]

# The source archive and the RPMs, and a program run from their files.
test-rpm:
	@scripts/deps rpm demo
	@tests/packages/rpm

clean:
	rm -rf build build-*

.PHONY: all configure product demo test test-short bench bench-guest sim fuzz asan tsan interop \
	lint install uninstall dist deb rpm test-on test-deb test-rpm test-container clean
