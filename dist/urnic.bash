# SPDX-License-Identifier: BSD-2-Clause
# Completion of the urnic command for bash.

# The processes of this user (root: of all) that use urnic in this network namespace.
_urnic_pids()
{
	local uid=$EUID
	[ "$uid" -eq 0 ] && uid='[0-9]*'
	urnic show 2>/dev/null | sed -n "1d; s/^[^ ].*  pid \([0-9]*\)  uid $uid  .*/\1/p"
}

_urnic()
{
	local word=${COMP_WORDS[COMP_CWORD]} at=2 word_list
	COMPREPLY=()
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "run devices show explain pcap fault trace top metrics doctor check-config \
			enable disable --version --help" -- "$word")
		return
	fi
	case ${COMP_WORDS[1]} in
	run)
		# Behind the options stands another command.
		while [[ $at -lt $COMP_CWORD && ${COMP_WORDS[at]} == -* ]]; do
			[[ ${COMP_WORDS[at]} == --@(fault|chaos|chaos-seed|check-file|check-exit|suppress) ]] && at=$((at + 1))
			at=$((at + 1))
		done
		if [[ $at -eq $COMP_CWORD && $word == -* ]]; then
			mapfile -t COMPREPLY < <(compgen -W \
				"--check --check=all --check-file --check-exit --suppress --json \
				--fault --chaos --chaos-seed --no-preload --env --help --" -- "$word")
		elif declare -F _command_offset >/dev/null; then
			_command_offset "$at"
		else
			mapfile -t COMPREPLY < <(compgen -c -- "$word")
		fi
		;;
	devices | show)
		mapfile -t COMPREPLY < <(compgen -W "--json --help" -- "$word")
		;;
	doctor)
		mapfile -t COMPREPLY < <(compgen -W "--json --help" \
			-A hostname -- "$word")
		;;
	explain)
		mapfile -t COMPREPLY < <(compgen -f -W "$(_urnic_pids) --json --events \
			--causes --write --help" -- "$word")
		;;
	top)
		case ${COMP_WORDS[COMP_CWORD - 1]} in
		-v) word_list='processes qps peers' ;;
		-s) word_list='messages bytes latency retransmitted pid' ;;
		-p) word_list=$(_urnic_pids) ;;
		*) word_list='--json --help -n -d -p -v -s' ;;
		esac
		mapfile -t COMPREPLY < <(compgen -W "$word_list" -- "$word")
		;;
	metrics)
		mapfile -t COMPREPLY < <(compgen -f -W "--json --write --listen \
			--help" -- "$word")
		;;
	pcap)
		mapfile -t COMPREPLY < <(compgen -f -W "$(_urnic_pids) -w --json --device --qp \
			--peer --seconds --count --last --help" -- "$word")
		;;
	fault)
		mapfile -t COMPREPLY < <(compgen -f -P @ -- "${word#@}")
		if [[ $word != @* ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$(_urnic_pids) --device --peer --clear --json --help \
				drop= delay= jitter= duplicate= reorder= corrupt= rate= partition rnr= nak= slow= kill: \
				reset: fail= lost-ack= port-down no-address remove overrun kill-urnicd late-cq= fork= none" -- "$word")
		fi
		;;
	trace)
		case ${COMP_WORDS[COMP_CWORD - 1]} in
		-e) mapfile -t COMPREPLY < <(compgen -W "verbs cm rsocket data wr errors" -- "$word") ;;
		-o | --perfetto) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
		*)
			mapfile -t COMPREPLY < <(compgen -c -f -W "$(_urnic_pids) -o -e -c --qp --sample --block \
				--json --perfetto --merge --help" -- "$word")
			;;
		esac
		;;
	check-config)
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		;;
	esac
}
complete -F _urnic urnic
