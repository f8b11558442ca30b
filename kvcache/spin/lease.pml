/*
 * Lease, late write and scrub: the life of a page while others may still write
 * into it. A model of core_page.go, core_step.go and core_handoff.go for Spin;
 * the script beside it runs it.
 *
 * Who acts here, each in its own time:
 *   Slot      admits a request, takes a page for it, has its prompt computed
 *             here step by step or by a peer, and may end it at any moment
 *   Device    runs steps: reads what lies below the mark, writes one row,
 *             reports back; nothing stops it in between
 *   Wire      delivers a peer's rows into the page, in order and arbitrarily
 *             late, and behind them the word that the peer is quiet
 *   Scrubber  blanks dirty pages row by row
 *
 * What must hold, in every order of their actions:
 *   - what is read below a mark is of the reader
 *   - a write lands in a page that is leased or quarantined, never in one that
 *     is being scrubbed, or free, or another's
 *   - a page that is leased is blank
 *   - a quarantined page becomes free again (LTL, weak fairness)
 *
 * Rules that can be left out, to see that the model can fail:
 *   NOQUIET   a page is freed although it is pinned
 *   TIMEOUT   a clock ends the quarantine
 *   EARLYACK  the peer's word that it has heard of the end is taken for quiet
 *   SCRUBHELD a pinned page is scrubbed first and quarantined then
 *   NOSCRUB   dirty pages are leased as they are
 * And variants:
 *   CHECKED   the receiver compares generations, as ours does; without it writes
 *             are one-sided, and the quarantine stands alone
 *   REMOTE    all prompts come from the peer
 *   READSONLY=true judges by what is read alone
 */

#ifndef READSONLY
#define READSONLY false
#endif

#ifndef PAGES
#define PAGES 2
#endif
#ifndef LIVES
#define LIVES 3 /* requests that there ever are */
#endif
#define SLOTS 2
#define ROWS 2 /* of a page; a request has one page */

#ifdef NOQUIET
#define QUIET false
#else
#define QUIET true
#endif

mtype = { free, writable, quarantined, dirty, scrubbing };
mtype = { data, quiet };

typedef Page {
	mtype state = free;
	byte owner;     /* request that leases it, 0: none */
	byte gen;       /* rises with every lease */
	byte pins;      /* steps and peers that hold it */
	byte filled;    /* rows that arrived */
	byte row[ROWS]; /* request that wrote it, 0: blank */
};

typedef Request {
	byte id;
	byte page;
	byte gen;
	byte valid;     /* the mark */
	bool live;
	bool held;      /* in a step, or waiting for a peer */
};

Page page[PAGES];
Request req[SLOTS];
byte lives;

chan steps = [SLOTS] of { byte, byte, byte, byte, byte }; /* slot, request, page, generation, row */
chan wire = [3] of { mtype, byte, byte, byte, byte, byte };

inline take(s, p) {
	assert(READSONLY || page[p].row[0] == 0 && page[p].row[1] == 0);
	page[p].state = writable;
	page[p].owner = req[s].id;
	page[p].gen++;
	page[p].filled = 0;
	req[s].page = p;
	req[s].gen = page[p].gen;
	req[s].valid = 0;
	req[s].live = true
}

inline drop(p) {
	page[p].owner = 0;
	if
	:: QUIET && page[p].pins > 0 ->
		page[p].state = quarantined
#ifdef SCRUBHELD
		; page[p].row[0] = 0; page[p].row[1] = 0
#endif
	:: else ->
		page[p].pins = 0;
		page[p].state = dirty
	fi
}

inline unpin(p, g) {
	if
	:: page[p].gen == g && page[p].pins > 0 ->
		page[p].pins--;
		if
		:: page[p].pins == 0 && page[p].state == quarantined ->
#ifdef SCRUBHELD
			page[p].state = free
#else
			page[p].state = dirty
#endif
		:: else
		fi
	:: else /* freed under the holder */
	fi
}

inline land(p, at, id) {
	assert(READSONLY || page[p].state == writable && page[p].owner == id || page[p].state == quarantined);
	page[p].row[at] = id
}

proctype Slot(byte s) {
	byte p;
#ifdef EARLYACK
	byte g;
#endif
end:	do
	:: atomic { lives < LIVES && !req[s].held -> lives++; req[s].id = lives };
		atomic {
			if
			:: page[0].state == free -> p = 0
			:: page[PAGES-1].state == free -> p = PAGES-1
#if PAGES > 2
			:: page[1].state == free -> p = 1
#endif
			fi;
			take(s, p)
		};
		if
#ifndef REMOTE
		:: do
			:: atomic {
				!req[s].held && req[s].valid < ROWS ->
				page[p].pins++;
				req[s].held = true;
				steps!s, req[s].id, p, req[s].gen, req[s].valid
			}
			:: break /* done, or cancelled in the middle of a step */
			od
#endif
		:: atomic {
			page[p].pins++;
			req[s].held = true;
			nfull(wire) -> wire!data, s, req[s].id, p, req[s].gen, 0
		   };
		   wire!data, s, req[s].id, p, req[s].gen, 1;
		   wire!quiet, s, req[s].id, p, req[s].gen, 0;
		   if
		   :: !req[s].held /* committed */
		   :: true         /* cancelled before */
		   fi
		fi;
		atomic {
			req[s].live = false;
			req[s].valid = 0;
			drop(p);
#ifdef EARLYACK
			g = req[s].gen;
			unpin(p, g);
#endif
			p = 0
		}
	od
}

active proctype Device() {
	byte s, id, p, g, at, r;
end:	do
	:: atomic { steps?s, id, p, g, at -> r = 0 };
		do
		:: r < at -> atomic { assert(page[p].row[r] == id); r++ }
		:: else -> break
		od;
		atomic { land(p, at, id) };
		atomic {
			req[s].held = false;
			unpin(p, g);
			if
			:: req[s].live && req[s].id == id ->
				req[s].valid++;
				page[p].filled = req[s].valid
			:: else
			fi;
			r = 0; at = 0; id = 0; p = 0; g = 0; s = 0
		}
	od
}

active proctype Wire() {
	byte s, id, p, g, at;
	mtype m;
end:	do
	:: wire?m, s, id, p, g, at;
		atomic {
			if
#ifdef CHECKED
			:: m == data && !(req[s].live && req[s].id == id && page[p].gen == g) /* refused */
			:: m == data && req[s].live && req[s].id == id && page[p].gen == g ->
#else
			:: m == data ->
#endif
				land(p, at, id);
				if
				:: req[s].live && req[s].id == id -> page[p].filled = at + 1
				:: else
				fi
			:: m == quiet ->
				req[s].held = false;
				if
				:: req[s].live && req[s].id == id && page[p].filled == ROWS -> req[s].valid = ROWS /* commit */
				:: else
				fi;
				unpin(p, g)
			fi;
			m = 0; s = 0; id = 0; p = 0; g = 0; at = 0
		}
	od
}

/* What a committed prompt says is read by the steps after it. */
proctype Reader(byte s) {
	byte r;
end:	do
	:: atomic {
		req[s].live && req[s].valid > 0 ->
		do
		:: r < req[s].valid ->
			assert(page[req[s].page].gen == req[s].gen && page[req[s].page].row[r] == req[s].id);
			r++
		:: else -> break
		od;
		r = 0
	}
	od
}

active proctype Scrubber() {
	byte p;
end:	do
	:: atomic {
		if
		:: page[0].state == dirty -> p = 0
		:: page[PAGES-1].state == dirty -> p = PAGES-1
#if PAGES > 2
		:: page[1].state == dirty -> p = 1
#endif
		fi;
		page[p].state = scrubbing
	};
#ifndef NOSCRUB
	page[p].row[0] = 0;
	page[p].row[1] = 0;
#endif
	atomic { page[p].filled = 0; page[p].state = free; p = 0 }
	od
}

#ifdef TIMEOUT
active proctype Clock() {
end:	do
	:: atomic { page[0].state == quarantined -> page[0].pins = 0; page[0].state = dirty }
	od
}
#endif

init {
	atomic { run Slot(0); run Slot(1); run Reader(0); run Reader(1) }
}

ltl released { [] (page[0].state == quarantined -> <> (page[0].state == free)) }
